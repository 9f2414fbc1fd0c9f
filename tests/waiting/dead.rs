//! The dead do not stand in the way: killed holders, killed waiters, stopped ones.

use std::time::{Duration, Instant};

use leasehold::{Attempt, Outcome};
use leasehold_testkit::{Server, eventually};
use leasehold_tests::child::{Child, Part};
use leasehold_tests::eye::Eye;
use leasehold_tests::{client, take};

use crate::{LONG, line_up, within};

const LEASE: Duration = Duration::from_secs(2);

/// The longest time that the server keeps a queue whose last waiter was killed: the longest promise
/// and a minute.
const QUEUE_LIFE: i64 = 95_000;

/// Kills a process that holds the lock for `LEASE`, and gives when, and what its key then had left.
async fn killed_holder(server: &Server, eye: &mut Eye) -> (Instant, Duration) {
    let mut holder = Child::start(Part::Holder, server, "a", LEASE);
    eventually("the other process holds", LONG, async || eye.holder("a").await.is_some()).await;
    let waiting = eye.queued("a").await;
    eye.queue_is("a", waiting).await;
    holder.kill();
    let left = eye.pttl(&eye.key("a")).await;
    (Instant::now(), Duration::from_millis(u64::try_from(left).unwrap()))
}

#[tokio::test]
async fn must_4_a_killed_holder_is_succeeded_when_its_ttl_ends() {
    let server = Server::start().await;
    let mut eye = Eye::on(&server).await;
    let client = client(&server).await;
    let (killed, left) = killed_holder(&server, &mut eye).await;
    let dead = eye.holder("a").await.unwrap();
    let lock = client.lock("a").unwrap();
    let guard = within("its successor", left + LEASE, lock.acquire()).await.unwrap();
    println!("{left:?} were left, succeeded after {:?}", killed.elapsed());
    // Reading the clock took less than this.
    assert!(killed.elapsed() + Duration::from_millis(50) > left, "before its lease was over");
    assert_ne!(eye.holder("a").await.unwrap(), dead);
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

/// A waiter that was there before, and one with a limit that is far off.
#[tokio::test]
async fn case_x38_the_holder_dies_and_no_waiter_waits_longer_than_its_ttl() {
    let server = Server::start().await;
    let mut eye = Eye::on(&server).await;
    let (one, two) = (client(&server).await, client(&server).await);
    let mut holder = Child::start(Part::Holder, &server, "a", LEASE);
    eventually("the other process holds", LONG, async || eye.holder("a").await.is_some()).await;
    let first = line_up(&mut eye, "a", &one.lock("a").unwrap(), 1).await;
    let lock = two.lock("a").unwrap();
    let second = tokio::spawn(async move { lock.acquire_within(Duration::from_secs(60)).await.unwrap() });
    eye.queue_is("a", 2).await;
    holder.kill();
    let guard = within("the first waiter", LEASE * 2, first).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    let second = within("the second waiter", LEASE, second).await.unwrap();
    assert!(second.acquired().is_some());
}

/// They are in front, and their connections are closed: the release goes past them to the live one.
#[tokio::test]
async fn must_4_ten_killed_waiters_in_front_do_not_delay_a_live_one() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap()).await;
    let mut dead = Child::start(Part::Waiters(10), &server, "a", LEASE);
    eye.queue_is("a", 10).await;
    let live = line_up(&mut eye, "a", &two.lock("a").unwrap(), 11).await;
    dead.kill();
    eventually("their connections are closed", LONG, async || eye.channels().await.len() == 1).await;
    assert_eq!(eye.queued("a").await, 11, "they are still in front");
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    // Within the release's own script, so without any delay.
    let holder = eye.holder("a").await.expect("it was handed over");
    let guard = within("the live waiter", LONG, live).await.unwrap();
    assert_eq!(guard.owner_id(), holder);
    let _ = guard.release().await.unwrap();
    assert_eq!(eye.holder("a").await, None);
}

/// The same for one head, killed while it waits; and what it leaves ends by itself.
#[tokio::test]
async fn case_q6_case_q9_a_killed_head_is_passed_over_and_leaves_nothing_for_ever() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap()).await;
    let mut head = Child::start(Part::Waiters(1), &server, "a", LEASE);
    eye.queue_is("a", 1).await;
    let live = line_up(&mut eye, "a", &two.lock("a").unwrap(), 2).await;
    head.kill();
    eventually("its connection is closed", LONG, async || eye.channels().await.len() == 1).await;
    let _ = guard.release().await.unwrap();
    drop(within("the next", LONG, live).await.unwrap());
    eventually("released", LONG, async || eye.holder("a").await.is_none()).await;
    // The dead one's entry is there, and will not be for long.
    assert_eq!(eye.queued("a").await, 1);
    for what in ["queue", "waiters"] {
        let left = eye.pttl(&eye.side("a", what)).await;
        assert!((1..=QUEUE_LIFE).contains(&left), "{what}: {left} ms");
    }
    // It stands in nobody's way.
    let Attempt::Acquired(guard) = one.lock("a").unwrap().try_acquire().await.unwrap() else {
        panic!("a dead waiter holds up a try")
    };
    let _ = guard.release().await.unwrap();
}

/// Silent, with open connections: it cannot be told from a slow one, so it is given its turn, once.
/// Meanwhile nobody polls.
#[tokio::test]
async fn case_q6_case_q7_a_stopped_head_costs_one_bounded_time_and_no_polling() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = |client: &leasehold::Client| client.lock("a").unwrap().renewed(LEASE).unwrap();
    let guard = take(&lock(&one)).await;
    let head = Child::start(Part::Waiters(1), &server, "a", LEASE);
    eye.queue_is("a", 1).await;
    // With long leases: a busy machine must not lose what they come to hold.
    let live = line_up(&mut eye, "a", &two.lock("a").unwrap(), 2).await;
    let behind = line_up(&mut eye, "a", &one.lock("a").unwrap(), 3).await;
    head.stop();
    let (begun, before) = (Instant::now(), eye.stats().await);
    let _ = guard.release().await.unwrap();
    // The turn of the stopped one is over with its claim time, and the next check is due within a
    // lease of the last one.
    let guard = within("the live waiter", LEASE * 4, live).await.unwrap();
    let (waited, ran) = (begun.elapsed(), eye.stats().await - before);
    println!("passed over after {waited:?} and {} script calls", ran.scripts());
    assert!(ran.scripts() <= 2 * 20 * (waited.as_secs() + 1), "polling: {ran:?}");
    // It wakes, and has lost nothing but that turn: its ticket is older.
    head.go_on();
    eye.queue_is("a", 2).await;
    let _ = guard.release().await.unwrap();
    let guard = within("the last one", LONG, behind).await.unwrap();
    assert_eq!(eye.queued("a").await, 0, "the one that was stopped was served before");
    let _ = guard.release().await.unwrap();
    eye.nothing_left(LONG).await;
}

/// The queue has dead heads only, with open connections, and the lock is free: whoever waits looks
/// at it at the times that were told, and not in between.
#[tokio::test]
async fn case_q7_a_dead_head_before_a_free_lock_makes_no_loop() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = |client: &leasehold::Client| client.lock("a").unwrap().renewed(LEASE).unwrap();
    let guard = take(&lock(&one)).await;
    let heads = Child::start(Part::Waiters(5), &server, "a", LEASE);
    eye.queue_is("a", 5).await;
    let live = line_up(&mut eye, "a", &lock(&two), 6).await;
    heads.stop();
    let key = eye.key("a");
    let (begun, before) = (Instant::now(), eye.stats().await);
    // By nobody's release: no script runs, nobody is told.
    eye.admin.call(&["DEL", &key]).await;
    let next = within("the live waiter", LONG, live).await.unwrap();
    let (waited, ran) = (begun.elapsed(), eye.stats().await - before);
    println!("free behind five dead heads: {waited:?}, {} script calls", ran.scripts());
    // Renewals of the holder that lost it are among them.
    assert!(ran.scripts() <= 20 * (waited.as_secs() + 1), "polling: {ran:?}");
    drop((guard, next));
}

/// Waiters that leave in order, by drop or by their limit: the queue goes with the last of them, and
/// what stays has a life of its own.
#[tokio::test]
async fn case_q9_no_queue_is_left_and_side_keys_always_have_an_expiry() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap()).await;
    let mut waiters = Vec::new();
    for n in 0..4 {
        waiters.push(line_up(&mut eye, "a", &two.lock("a").unwrap(), n + 1).await);
        for what in ["queue", "waiters"] {
            let left = eye.pttl(&eye.side("a", what)).await;
            assert!((1..=QUEUE_LIFE).contains(&left), "{what} with {n} waiters: {left} ms");
        }
    }
    assert!(two.lock("a").unwrap().acquire_within(Duration::from_millis(100)).await.unwrap().is_busy());
    for waiter in waiters {
        waiter.abort();
    }
    eye.queue_is("a", 0).await;
    assert_eq!(eye.pttl(&eye.side("a", "queue")).await, -2, "no queue");
    let _ = guard.release().await.unwrap();
    eye.nothing_left(LONG).await;
    for what in ["waiters", "fence"] {
        assert!(eye.pttl(&eye.side("a", what)).await > 0, "{what}");
    }
}
