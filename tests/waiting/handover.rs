//! Hand-overs: none is missed, and none costs more than its three commands and one message.

use std::time::{Duration, Instant};

use leasehold::{Client, Lock};
use leasehold_testkit::{Server, Stats};
use leasehold_tests::eye::Eye;
use leasehold_tests::{client, take};

use crate::{LONG, within};

/// A push that is missed costs the claim time at the least: 5 s with the lease of 30 s.
const MISSED: Duration = Duration::from_secs(4);

/// Each of the two asks again while the other holds: the release falls between, before and behind
/// the enqueue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_p1_ten_thousand_hand_overs_between_two_clients_miss_nobody() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let mut sides = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let client = client(&server).await;
        sides.spawn(async move {
            let lock = client.lock("a").unwrap();
            let mut slowest = Duration::ZERO;
            for _ in 0..5_000 {
                let asked = Instant::now();
                let guard = lock.acquire().await.unwrap();
                slowest = slowest.max(asked.elapsed());
                assert!(slowest < MISSED, "a hand-over was missed: {slowest:?}");
                let _ = guard.release().await.unwrap();
            }
            slowest
        });
    }
    let slowest = sides.join_all().await.into_iter().max().unwrap();
    let ran = eye.stats().await;
    println!(
        "slowest of 10,000: {slowest:?}; {} script calls, {} messages",
        ran.scripts(),
        ran.of("publish")
    );
    assert!(ran.of("publish") > 0, "they never met");
    eye.nothing_left(LONG).await;
}

/// `count` clients that have their push channel: its first opening has commands of its own.
async fn listening(server: &Server, count: usize) -> Vec<Client> {
    let mut eye = Eye::on(server).await;
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(client(server).await);
    }
    let guard = take(&clients[0].lock("warm").unwrap()).await;
    let mut waiters = tokio::task::JoinSet::new();
    for client in &clients {
        let lock = client.lock("warm").unwrap();
        waiters.spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
    }
    eye.queue_is("warm", count).await;
    drop(guard);
    within("all are warm", LONG, waiters.join_all()).await;
    eye.nothing_left(LONG).await;
    clients
}

/// Takes the lock, lines up `locks` behind it, lets go, and has each released when it is served.
/// Counts everything from the first take to the last release.
async fn served(eye: &mut Eye, locks: Vec<Lock>) -> (Stats, Duration) {
    let (begun, before) = (Instant::now(), eye.stats().await);
    let first = take(&locks[0]).await;
    let count = locks.len();
    let mut waiters = tokio::task::JoinSet::new();
    for (n, lock) in locks.into_iter().enumerate() {
        waiters.spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
        eye.queue_is("a", n + 1).await;
    }
    let _ = first.release().await.unwrap();
    let all = within("everybody is served", LONG * 2, waiters.join_all()).await;
    assert_eq!(all.len(), count);
    assert!(all.iter().all(|outcome| *outcome == leasehold::Outcome::Released), "{all:?}");
    (eye.stats().await - before, begun.elapsed())
}

/// Three script calls for each that is served, two for the first holder, and the checks: a waiter's
/// client is told how long the present holder has still, a claim time at the least, and asks then.
fn assert_cost(what: &str, ran: &Stats, took: Duration, served: u64, clients: u64) {
    let plain = 2 + 3 * served;
    let checks = ran.scripts().checked_sub(plain).expect("nobody is served for less");
    println!(
        "{what}: {served} hand-overs: {plain} script calls and {checks} checks in {took:?}, {} messages",
        ran.of("publish")
    );
    let due = clients * (1 + took.as_secs() / 5);
    assert!(checks <= due, "{checks} checks, where {due} can have been due: {ran:?}");
    assert!(ran.of("publish") <= served, "more than a message for each: {ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn must_6_a_hand_over_costs_three_commands_and_one_message_for_two_waiters() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let clients = listening(&server, 2).await;
    let locks: Vec<_> = clients.iter().map(|client| client.lock("a").unwrap()).collect();
    for _ in 0..20 {
        let (ran, took) = served(&mut eye, locks.clone()).await;
        assert_cost("2 waiters", &ran, took, 2, 2);
        // The first waiter is the releasing client's own: told by the release's reply.
        assert_eq!(ran.of("publish"), 1, "{ran:?}");
    }
}

/// 1,000 waiters, 20 clients in turn: the next is always another client's, so each gets a message,
/// but for the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn must_6_a_hand_over_costs_three_commands_and_one_message_for_a_thousand_waiters() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let clients = listening(&server, 20).await;
    let locks: Vec<_> = (0..1_000).map(|n| clients[n % 20].lock("a").unwrap()).collect();
    let (ran, took) = served(&mut eye, locks).await;
    assert_cost("1,000 waiters", &ran, took, 1_000, 20);
    assert_eq!(ran.of("publish"), 999, "{ran:?}");
    eye.nothing_left(LONG).await;
}

/// A release wakes one, however many clients wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_p12_a_hundred_clients_are_no_herd() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let clients = listening(&server, 100).await;
    let locks: Vec<_> = clients.iter().map(|client| client.lock("a").unwrap()).collect();
    let (ran, took) = served(&mut eye, locks).await;
    assert_cost("100 clients", &ran, took, 100, 100);
    assert_eq!(ran.of("publish"), 99, "{ran:?}");
    eye.nothing_left(LONG).await;
}
