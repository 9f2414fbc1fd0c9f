//! The end of a client that holds and waits.

use std::time::{Duration, Instant};

use leasehold::{Client, ErrorKind, Guard, LostReason, Outcome};
use leasehold_testkit::{Direction, Relay, Server, eventually, keys};
use leasehold_tests::{client, take};
use tokio::task::JoinSet;

use crate::support::{Log, SOON, lost, options_through, quiet, tasks};

async fn hold(client: &Client, count: usize) -> Vec<Guard> {
    let mut guards = Vec::new();
    for n in 0..count {
        guards.push(take(&client.lock(&format!("a{n}")).unwrap()).await);
    }
    guards
}

#[tokio::test]
async fn case_r17_closing_with_a_hundred_holds_logs_no_error_and_leaves_no_task() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let log = Log::keep();
    let before = tasks();
    let client = client(&server).await;
    let guards = hold(&client, 100).await;
    let mut waits = JoinSet::new();
    for n in 0..10 {
        let lock = client.lock(&format!("a{n}")).unwrap();
        waits.spawn(async move { lock.acquire().await });
    }
    eventually("all wait", SOON, async || {
        keys(&mut admin).await.iter().filter(|key| key.ends_with(":queue")).count() == 10
    })
    .await;

    client.close_within(SOON).await;
    for ended in waits.join_all().await {
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed);
    }
    for guard in &guards {
        assert_eq!(lost(guard).await, LostReason::Closed);
        assert!(!guard.is_held());
    }
    let left = keys(&mut admin).await;
    assert!(!left.iter().any(|key| key.starts_with("t:") || key.ends_with(":queue")), "{left:?}");
    for guard in guards {
        assert_eq!(guard.release().await.unwrap(), Outcome::Lost(LostReason::Closed));
    }
    let lock = client.lock("a0").unwrap();
    assert_eq!(lock.try_acquire().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(lock.acquire().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(lock.inspect().await.unwrap_err().kind(), ErrorKind::Closed);
    // Once more is nothing.
    client.close_within(SOON).await;
    eventually("no task is left", SOON, async || tasks() == before).await;
    assert_eq!(log.errors(), [""; 0]);
    assert_eq!(log.with("lock lost").len(), 100);
    quiet(&mut admin, Duration::from_millis(500)).await;
}

#[tokio::test]
async fn case_r18_closing_with_a_hundred_holds_lets_the_waiters_elsewhere_run() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guards = hold(&one, 100).await;
    let mut waits = JoinSet::new();
    for n in 0..100 {
        let lock = two.lock(&format!("a{n}")).unwrap();
        waits.spawn(async move { lock.acquire_within(SOON).await.unwrap().acquired() });
    }
    eventually("all wait", SOON, async || {
        keys(&mut admin).await.iter().filter(|key| key.ends_with(":queue")).count() == 100
    })
    .await;
    one.close_within(SOON).await;
    // The leases are 30 s: each of them was served by a release.
    for guard in waits.join_all().await {
        assert!(guard.expect("a waiter was left waiting").is_held());
    }
    assert!(guards.iter().all(|guard| !guard.is_held()));
}

/// The last handle is dropped instead: what was held is released all the same, in the background.
#[tokio::test]
async fn case_r18_dropping_the_last_handle_releases_and_ends_the_tasks() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let before = tasks();
    let client = client(&server).await;
    let guards = hold(&client, 100).await;
    drop(client);
    drop(guards);
    eventually("all are released", SOON, async || {
        !keys(&mut admin).await.iter().any(|key| key.starts_with("t:"))
    })
    .await;
    eventually("no task is left", SOON, async || tasks() == before).await;
}

/// Leases end what could not be released in time; closing does not wait for that.
#[tokio::test]
async fn must_8_closing_on_a_silent_server_takes_no_longer_than_it_may() {
    let server = Server::own().await;
    let relay = Relay::to(&server);
    let before = tasks();
    let client = options_through(&server, &relay).connect().await.unwrap();
    let guards = hold(&client, 3_000).await;
    relay.hold(Direction::Both);
    let began = Instant::now();
    client.close_within(Duration::from_secs(1)).await;
    let took = began.elapsed();
    // One after the other, or in rounds, the 3,000 releases would time out for most of a minute.
    assert!(took < SOON, "closing took {took:?}");
    assert!(guards.iter().all(|guard| !guard.is_held()));
    assert_eq!(lost(&guards[0]).await, LostReason::Closed);
    eventually("no task is left", SOON, async || tasks() == before).await;
}
