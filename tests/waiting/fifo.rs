//! First come, first served: across clients, over long holds, with leases that end by themselves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Attempt, HoldState, LostReason};
use leasehold_testkit::Server;
use leasehold_tests::eye::Eye;
use leasehold_tests::{client, take};

use crate::{LONG, line_up, within};

/// Five waiters of each of four clients, in turn.
#[tokio::test]
async fn order_of_service_is_order_of_arrival_across_clients() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(client(&server).await);
    }
    let first = take(&clients[0].lock("a").unwrap()).await;
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for n in 0..20 {
        let lock = clients[n % 4].lock("a").unwrap();
        let served = served.clone();
        waiters.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            served.lock().unwrap().push((n, guard.token().sequence()));
            drop(guard);
        }));
        eye.queue_is("a", n + 1).await;
    }
    drop(first);
    for waiter in waiters {
        within("everybody is served", LONG, waiter).await.unwrap();
    }
    let served = served.lock().unwrap();
    let order: Vec<usize> = served.iter().map(|(n, _)| *n).collect();
    assert_eq!(order, (0..20).collect::<Vec<_>>());
    assert!(served.is_sorted_by(|(_, one), (_, next)| one < next), "tokens grow: {served:?}");
}

/// The hold lasts longer than anything that was promised when the waiters came: each check renews
/// the promise.
#[tokio::test]
async fn case_q2_a_hold_of_many_leases_keeps_the_queue_and_its_order() {
    let server = Server::start().await;
    let mut eye = Eye::on(&server).await;
    let lease = Duration::from_secs(1);
    let holder = client(&server).await;
    let guard = take(&holder.lock("a").unwrap().renewed(lease).unwrap()).await;
    let (mut clients, mut waiters) = (Vec::new(), Vec::new());
    for n in 0..3 {
        let waiting = client(&server).await;
        let lock = waiting.lock("a").unwrap().renewed(lease).unwrap();
        waiters.push(line_up(&mut eye, "a", &lock, n + 1).await);
        clients.push(waiting);
    }
    // Longer than three of the longest promises: 9/8 of a lease and 300 ms.
    tokio::time::sleep(Duration::from_millis(4_500)).await;
    assert!(guard.is_held());
    assert_eq!(eye.queued("a").await, 3);
    let mut before = guard.token().sequence();
    let _ = guard.release().await.unwrap();
    for waiter in waiters {
        let guard = within("the next in the queue", LONG, waiter).await.unwrap();
        assert!(guard.token().sequence() > before, "in the order of arrival");
        before = guard.token().sequence();
        let _ = guard.release().await.unwrap();
    }
}

/// Nobody ever releases: every hold ends at its time, and the next in the queue follows.
#[tokio::test]
async fn case_q4_eight_waiters_and_nobody_unlocks() {
    let server = Server::start().await;
    let mut eye = Eye::on(&server).await;
    let lease = Duration::from_secs(1);
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(client(&server).await);
    }
    let lock = |n: usize| clients[n % 8].lock("a").unwrap().fixed(lease).unwrap();
    // Held by nobody's guard: no clean-up at its deadline, the server alone ends it.
    let (key, fence) = (eye.key("a"), eye.side("a", "fence"));
    let token = eye.admin.call(&["INCR", &fence]).await.int();
    eye.admin.call(&["EXPIRE", &fence, "100"]).await;
    let facts = format!("t{token} s1 l2000");
    eye.admin.call(&["HSET", &key, "dead:1", "1", "owner", "odead:1", "f", &facts]).await;
    eye.admin.call(&["PEXPIRE", &key, "2000"]).await;
    let mut waiters = Vec::new();
    for n in 0..8 {
        waiters.push(line_up(&mut eye, "a", &lock(n), n + 1).await);
    }
    let mut holds = Vec::new();
    for (n, waiter) in waiters.into_iter().enumerate() {
        let guard = within("the next in the queue", LONG, waiter).await.unwrap();
        if let Some(last) = holds.last() {
            let last: &leasehold::Guard = last;
            assert_eq!(last.state(), HoldState::Lost(LostReason::Expired), "{n}: no overlap");
            assert!(last.token().sequence() < guard.token().sequence(), "{n}: in the order of arrival");
        }
        holds.push(guard);
    }
    assert_eq!(holds.len(), 8);
}

/// A try never waits: it neither overtakes nor enters the queue.
#[tokio::test]
async fn case_q12_a_try_neither_overtakes_nor_enqueues() {
    let server = Server::start().await;
    let mut eye = Eye::on(&server).await;
    let (one, two, three) = (client(&server).await, client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap()).await;
    let waiter = line_up(&mut eye, "a", &two.lock("a").unwrap(), 1).await;
    let try_lock = three.lock("a").unwrap();
    for _ in 0..3 {
        assert!(try_lock.try_acquire().await.unwrap().is_busy(), "held");
        assert_eq!(eye.queued("a").await, 1);
    }
    // Free, and somebody fit is next: the try serves him, not itself.
    let key = eye.key("a");
    eye.admin.call(&["DEL", &key]).await;
    let Attempt::Busy(busy) = try_lock.try_acquire().await.unwrap() else { panic!("it overtook") };
    assert!(busy.place().is_none());
    let next = within("the waiter", LONG, waiter).await.unwrap();
    assert!(next.token().sequence() > guard.token().sequence());
    let _ = next.release().await.unwrap();
    // Free, and nobody waits.
    assert!(try_lock.try_acquire().await.unwrap().acquired().is_some());
    drop(guard);
}

/// What a waiter that gave up is told: who has it, for how long, and its place.
#[tokio::test]
async fn busy_tells_the_place_in_the_queue() {
    let server = Server::start().await;
    let mut eye = Eye::on(&server).await;
    let (one, two, three) = (client(&server).await, client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap().label("the report").unwrap()).await;
    let mut waiters = Vec::new();
    for (n, waiting) in [&two, &three, &two].into_iter().enumerate() {
        waiters.push(line_up(&mut eye, "a", &waiting.lock("a").unwrap(), n + 1).await);
    }
    let lock = three.lock("a").unwrap();
    let Attempt::Busy(busy) = lock.acquire_within(Duration::from_millis(300)).await.unwrap() else {
        panic!("two holders")
    };
    assert_eq!(busy.place(), Some(4), "{busy}");
    let holder = busy.holder().and_then(|holder| holder.client()).expect("a client of ours");
    assert_eq!(holder.label(), Some("the report"));
    assert_eq!(holder.process(), Some(std::process::id()));
    assert_eq!(holder.owner(), guard.owner_id());
    assert!(matches!(busy.remaining(), leasehold::Remaining::For(_)));
    // It has left; nobody else has lost a place.
    eye.queue_is("a", 3).await;
    let _ = guard.release().await.unwrap();
    for waiter in waiters {
        drop(within("the next in the queue", LONG, waiter).await.unwrap());
    }
    eye.nothing_left(LONG).await;
}
