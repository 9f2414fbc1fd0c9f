//! A holder whose process stands still: past its lease, and for long.

use std::time::Duration;

use leasehold::Outcome;
use leasehold_testkit::{Server, eventually, stats};
use leasehold_tests::{client, take};

use crate::actor::{Actor, SOON, now};

#[tokio::test]
async fn must_7_a_holder_stopped_past_its_lease_never_says_held_renews_or_works_again() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let mut actor = Actor::start(&server).await;
    let held = actor.number("hold a 1500", "held").await;
    let running = actor.number("run b 1500", "running").await;
    // Nobody looks at this one: only the watchdog can know.
    let kept = actor.number("keep c 1500", "held").await;
    eventually("it says held, and works", SOON, async || {
        let facts = actor.facts().await;
        facts.yes > 0 && facts.poll > 0
    })
    .await;

    actor.stop().await;
    let mut next = Vec::new();
    for (lock, before) in [("a", held), ("b", running), ("c", kept)] {
        // A fixed hold sends nothing for a third of its time: what is counted below is not its own.
        let lock = client.lock(lock).unwrap().fixed(Duration::from_secs(600)).unwrap();
        let guard = lock.acquire_within(SOON).await.unwrap().acquired().expect("it is succeeded");
        assert!(guard.token().sequence() > before, "the next holder's token is larger");
        next.push(guard);
    }
    let before = stats(&mut admin).await;
    let resumed = now();
    actor.go_on();

    assert_eq!(actor.says("ran").await, "Some(Expired)");
    // All holds are passed in the background; what else it would send comes in the time of a lease.
    eventually("it passes", SOON, async || (stats(&mut admin).await - before.clone()).scripts() >= 3).await;
    let end = now() + 1_500_000;
    while now() < end {
        let facts = actor.facts().await;
        assert!(facts.yes < resumed, "{} us after SIGCONT it said held", facts.yes - resumed);
        assert!(facts.poll < resumed, "{} us after SIGCONT it worked", facts.poll - resumed);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let sent = stats(&mut admin).await - before;
    assert_eq!(sent.of("pexpire"), 0, "renewed: {sent:?}");
    for guard in next {
        assert!(guard.confirm().await.is_ok(), "nobody else's hold was touched");
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

/// The same when the stop is shorter than the lease: nothing is lost.
#[tokio::test]
async fn must_7_a_holder_stopped_for_less_than_its_lease_goes_on() {
    let server = Server::own().await;
    let client = client(&server).await;
    let mut actor = Actor::start(&server).await;
    let token = actor.number("hold a 30000", "held").await;
    actor.stop().await;
    let resumed = now();
    actor.go_on();
    eventually("it says held", SOON, async || actor.facts().await.yes > resumed).await;
    let seen = client.lock("a").unwrap().inspect().await.unwrap();
    assert_eq!(seen.held().unwrap().holder().token(), token);
}

#[tokio::test]
async fn must_7_after_forty_seconds_stopped_the_same_client_locks_and_waits_as_before() {
    let server = Server::own().await;
    let client = client(&server).await;
    let mut actor = Actor::start(&server).await;
    let (lock, early, late) =
        (client.lock("a").unwrap(), client.lock("early").unwrap(), client.lock("late").unwrap());
    let first = actor.number("hold a 1500", "held").await;
    // It waits for one lock all through the stop, and for another one after it.
    let (early_held, late_held) = (take(&early).await, take(&late).await);
    actor.told("wait early").await;
    actor.says("waits").await;
    let waits = async |lock: &leasehold::Lock| {
        eventually("it waits", SOON, async || {
            lock.inspect().await.unwrap().held().is_some_and(|hold| hold.waiters() == 1)
        })
        .await;
    };
    waits(&early).await;

    actor.stop().await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    actor.go_on();

    let second = actor.number("hold a 1500", "held").await;
    assert!(second > first);
    let resumed = now();
    eventually("it is renewed", SOON, async || actor.facts().await.yes > resumed + 3_000_000).await;
    assert_eq!(lock.inspect().await.unwrap().held().unwrap().holder().token(), second);
    actor.told("wait late").await;
    actor.says("waits").await;
    for (lock, guard) in [(&early, early_held), (&late, late_held)] {
        waits(lock).await;
        let before = guard.token().sequence();
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
        // Sooner than it would have looked by itself: it was pushed.
        let got = tokio::time::timeout(SOON, actor.says("got")).await.expect("it is served");
        assert!(got.parse::<u64>().unwrap() > before);
    }
}
