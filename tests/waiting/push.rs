//! The push connection: one, whatever is waited for; and what happens when it fails.

use std::time::{Duration, Instant};

use leasehold::{Client, Outcome};
use leasehold_testkit::{Direction, Relay, Server, eventually};
use leasehold_tests::eye::Eye;
use leasehold_tests::{client, options, take};
use tokio::task::JoinSet;

use crate::{LONG, line_up, within};

/// Kills all push connections, and releases at the same moment: the waiter is nowhere when its turn
/// comes, and looks again as soon as it can be reached.
#[tokio::test]
async fn case_p11_the_push_connection_is_killed_at_the_release() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (one, two) = (client(&server).await, client(&server).await);
    for round in 0..20 {
        let guard = take(&one.lock("a").unwrap()).await;
        let waiter = line_up(&mut eye, "a", &two.lock("a").unwrap(), 1).await;
        let kill = eye.admin.call(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        let (killed, released) = if round % 2 == 0 {
            tokio::join!(kill, guard.release())
        } else {
            let (released, killed) = tokio::join!(guard.release(), kill);
            (killed, released)
        };
        assert_eq!(released.unwrap(), Outcome::Released);
        assert!(killed.int() >= 1, "{killed:?}");
        let begun = Instant::now();
        // The check that was told is 30 s away, the claim lease of a lost grant 5 s.
        let guard = within("the waiter goes on", Duration::from_secs(15), waiter).await.unwrap();
        println!("{round}: {:?}", begun.elapsed());
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
    eye.nothing_left(LONG).await;
}

/// The message is sent, and its connection dies with it on the way.
#[tokio::test]
async fn case_p11_the_message_is_lost_with_its_connection() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let relay = Relay::to(&server);
    let one = client(&server).await;
    let two = Client::builder(&relay.url()).prefix(server.prefix()).connect().await.unwrap();
    let guard = take(&one.lock("a").unwrap()).await;
    let waiter = line_up(&mut eye, "a", &two.lock("a").unwrap(), 1).await;
    let push = relay.conn(1);
    push.hold(Direction::ToClient);
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    assert!(eye.holder("a").await.is_some(), "it was handed over");
    assert!(!waiter.is_finished());
    push.cut();
    let guard = within("the waiter goes on", Duration::from_secs(15), waiter).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    eye.nothing_left(LONG).await;
}

/// The message is lost and nothing else happens: the check finds the grant, or a lock that is free
/// again.
#[tokio::test]
async fn case_p11_the_message_never_comes() {
    let lease = Duration::from_secs(2);
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let relay = Relay::to(&server);
    let one = client(&server).await;
    let two = Client::builder(&relay.url()).prefix(server.prefix()).connect().await.unwrap();
    let lock = |client: &Client| client.lock("a").unwrap().renewed(lease).unwrap();
    let guard = take(&lock(&one)).await;
    let waiter = line_up(&mut eye, "a", &lock(&two), 1).await;
    relay.conn(1).hold(Direction::ToClient);
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    assert!(!waiter.is_finished());
    // Sooner than the probe of a silent connection, which comes every 5 s and takes a time-out.
    let guard = within("the waiter goes on", lease * 2, waiter).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    relay.let_go();
}

/// While the answer to the waiter's first command is on its way, its push connection breaks, the
/// holder releases, and the push connection is back. The answer is older than all that, and says
/// that there is nothing to do for 30 s.
#[tokio::test]
async fn must_3_5_a_push_that_is_missed_behind_an_older_answer_is_repaired() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let relay = Relay::to(&server);
    let one = client(&server).await;
    let two = Client::builder(&relay.url()).prefix(server.prefix());
    let two = two.command_timeout(Duration::from_secs(10)).connect().await.unwrap();
    let guard = take(&one.lock("a").unwrap()).await;
    let warm = line_up(&mut eye, "a", &two.lock("a").unwrap(), 1).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    drop(within("warm", LONG, warm).await.unwrap());
    eye.nothing_left(LONG).await;

    let guard = take(&one.lock("a").unwrap()).await;
    let (commands, push) = (relay.conn(0), relay.conn(1));
    commands.hold(Direction::ToClient);
    let waiter = line_up(&mut eye, "a", &two.lock("a").unwrap(), 1).await;
    push.cut();
    eventually("nobody listens", LONG, async || eye.channels().await.is_empty()).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    eventually("it listens again", LONG, async || eye.channels().await.len() == 1).await;
    // And has told the client so: nothing outside shows when.
    tokio::time::sleep(Duration::from_millis(200)).await;
    commands.let_go();
    let guard = within("the waiter goes on", Duration::from_secs(15), waiter).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    eye.nothing_left(LONG).await;
}

/// A thousand locks are to be looked at, one after the other, half of them free, and the push
/// connection breaks again before that is done, and again: none of them is put off for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn must_3_5_a_push_connection_that_breaks_again_and_again_starves_no_lock() {
    const LOCKS: usize = 1_000;
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let relay = Relay::to(&server);
    let one = client(&server).await;
    let two = Client::builder(&relay.url()).prefix(server.prefix()).connect().await.unwrap();
    let (mut held, mut waiters) = (Vec::new(), JoinSet::new());
    let (mut kept, mut in_vain) = (Vec::new(), JoinSet::new());
    for n in 0..LOCKS {
        let frees = n % 2 == 0;
        let name = format!("{}{n}", if frees { "a" } else { "b" });
        let guard = take(&one.lock(&name).unwrap()).await;
        let lock = two.lock(&name).unwrap();
        let waits = async move { lock.acquire().await.map(drop).unwrap() };
        if frees {
            held.push(guard);
            waiters.spawn(waits);
        } else {
            kept.push(guard);
            in_vain.spawn(waits);
        }
        eye.queue_is(&name, 1).await;
    }
    relay.refuse();
    relay.conn(1).cut();
    eventually("nobody listens", LONG, async || eye.channels().await.is_empty()).await;
    drop(held);
    eventually("all are free", LONG, async || {
        let keys = eye.admin.call(&["KEYS", &eye.key("a*")]).await.array();
        keys.is_empty()
    })
    .await;
    relay.accept();
    let breaks = async {
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            relay.conns().into_iter().filter(|conn| conn.number() > 1).for_each(|conn| conn.cut());
        }
    };
    tokio::select! {
        served = within("all are served", LONG, waiters.join_all()) => assert_eq!(served.len(), LOCKS / 2),
        () = breaks => {}
    }
    assert!(in_vain.try_join_next().is_none() && kept.iter().all(|guard| guard.is_held()));
}

/// The server takes no more connections, so that no push channel can be opened: the waiter tries the
/// lock itself, now and then.
#[tokio::test]
async fn must_3_a_waiter_without_a_push_connection_gets_a_lock_that_is_free() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap()).await;
    let connections = eye.admin.call(&["CLIENT", "LIST"]).await.text().lines().count().to_string();
    let set = eye.admin.call(&["CONFIG", "SET", "maxclients", &connections]).await;
    assert_eq!(set.error(), None);
    let lock = two.lock("a").unwrap();
    let waiter = tokio::spawn(async move { lock.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiter.is_finished());
    assert_eq!(eye.queued("a").await, 0);
    let _ = guard.release().await.unwrap();
    let guard = within("the waiter gets it", LONG, waiter).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

/// Ten thousand different locks, all held, all waited for by one client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_p4_ten_thousand_contended_locks_in_one_process() {
    const LOCKS: usize = 10_000;
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    // So many commands at once take their time on a busy machine.
    let patient = || options(&server).command_timeout(LONG);
    let one = patient().connect().await.unwrap();
    let two = patient().label("waits").connect().await.unwrap();
    let names = || (0..LOCKS).map(|n| format!("a{n}"));
    let mut held = Vec::new();
    let mut takes = JoinSet::new();
    for name in names() {
        let lock = one.lock(&name).unwrap();
        takes.spawn(async move { lock.acquire().await.unwrap() });
        if takes.len() == 100 {
            held.push(takes.join_next().await.unwrap().unwrap());
        }
    }
    held.extend(takes.join_all().await);
    assert_eq!(held.len(), LOCKS);

    let begun = Instant::now();
    let mut waiters = JoinSet::new();
    for name in names() {
        let lock = two.lock(&name).unwrap();
        waiters.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            guard.release().await.unwrap()
        });
    }
    eventually("all are queued", LONG * 2, async || {
        let mut queued = 0;
        for name in names().step_by(97) {
            queued += eye.queued(&name).await;
        }
        queued == names().step_by(97).count()
    })
    .await;
    let list = eye.admin.call(&["CLIENT", "LIST", "TYPE", "pubsub"]).await.text();
    assert_eq!(list.lines().filter(|line| line.contains("name=leasehold-waits ")).count(), 1, "{list}");
    assert_eq!(list.lines().count(), 1, "{list}");
    println!("queued: {:?}", begun.elapsed());

    // All at once: guards that are dropped are released in the background.
    drop(held);
    let served = within("all are served", LONG * 2, waiters.join_all()).await;
    println!("served: {:?}", begun.elapsed());
    assert_eq!(served.len(), LOCKS);
    let whole = served.iter().filter(|outcome| **outcome == Outcome::Released).count();
    assert_eq!(whole, LOCKS, "released, each of them");
    let list = eye.admin.call(&["CLIENT", "LIST", "TYPE", "pubsub"]).await.text();
    assert_eq!(list.lines().count(), 1, "{list}");
    let holders = names().step_by(97);
    for name in holders {
        assert_eq!(eye.holder(&name).await, None, "{name}");
        assert_eq!(eye.queued(&name).await, 0, "{name}");
    }
}
