//! A holder whose process ends: killed, or asked to.

use std::time::{Duration, Instant};

use leasehold_testkit::{Server, eventually};
use leasehold_tests::client;
use tokio::task::JoinSet;

use crate::actor::{Actor, SOON};

#[tokio::test]
async fn must_4_a_killed_holder_is_succeeded_when_its_time_is_over_and_not_before() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let mut actor = Actor::start(&server).await;
    let first = actor.number("hold a 2000", "held").await;
    let next = tokio::spawn({
        let lock = client.lock("a").unwrap();
        async move { lock.acquire_within(SOON).await.unwrap().acquired() }
    });
    let lock = client.lock("a").unwrap();
    eventually("the next one waits", SOON, async || {
        lock.inspect().await.unwrap().held().is_some_and(|hold| hold.waiters() == 1)
    })
    .await;
    actor.kill().await;
    let killed = Instant::now();
    let left = admin.call(&["PTTL", "t:a"]).await.int();
    assert!(left > 0, "its lease goes on without it");
    let guard = next.await.unwrap().expect("it is succeeded");
    assert!(guard.token().sequence() > first);
    let took = killed.elapsed() + Duration::from_millis(2);
    assert!(took >= Duration::from_millis(u64::try_from(left).unwrap()), "after {took:?} of {left} ms");
}

#[tokio::test]
async fn case_r18_on_sigterm_a_process_releases_what_it_holds_and_ends_well() {
    let server = Server::own().await;
    let client = client(&server).await;
    let mut actor = Actor::start(&server).await;
    let mut next = JoinSet::new();
    for n in 0..20 {
        actor.number(&format!("hold a{n} 30000"), "held").await;
        let lock = client.lock(&format!("a{n}")).unwrap();
        next.spawn(async move { lock.acquire_within(SOON).await.unwrap().acquired() });
    }
    for n in 0..20 {
        let lock = client.lock(&format!("a{n}")).unwrap();
        eventually("somebody waits", SOON, async || {
            lock.inspect().await.unwrap().held().is_some_and(|hold| hold.waiters() == 1)
        })
        .await;
    }
    actor.end();
    // The leases are 30 s: each of them was served by a release.
    for guard in next.join_all().await {
        assert!(guard.expect("a waiter was left waiting").is_held());
    }
    actor.says("closed").await;
    assert!(actor.ended().await.success());
}
