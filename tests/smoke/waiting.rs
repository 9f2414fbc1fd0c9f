//! While a lock is waited for.

use std::time::Duration;

use leasehold::{Attempt, ErrorKind, LostReason, Outcome};
use leasehold_testkit::{Server, eventually};
use leasehold_tests::{client, take};

const SOON: Duration = Duration::from_secs(8);

async fn until_waiting(lock: &leasehold::Lock, waiters: u64) {
    eventually("the waiters stand in the queue", SOON, async || {
        lock.inspect().await.unwrap().held().is_some_and(|hold| hold.waiters() == waiters)
    })
    .await;
}

#[tokio::test]
async fn waiters_of_three_clients_are_served_in_their_order() {
    let server = Server::start().await;
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    let lock = clients[0].lock("a").unwrap();
    let guard = take(&lock).await;
    let mut waiters = Vec::new();
    for n in 0..6 {
        let waiting = clients[n % 3].lock("a").unwrap();
        waiters.push(tokio::spawn(async move {
            let guard = waiting.acquire().await.unwrap();
            let token = guard.token().sequence();
            assert_eq!(guard.release().await.unwrap(), Outcome::Released);
            token
        }));
        until_waiting(&lock, n as u64 + 1).await;
    }
    let mut last = guard.token().sequence();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    for waiter in waiters {
        // Far below the lease of 30 s: each is served by the release before it.
        let token = tokio::time::timeout(SOON, waiter).await.expect("served").unwrap();
        assert!(token > last, "the order of the tokens is the order of arrival");
        last = token;
    }
    assert!(lock.inspect().await.unwrap().is_free());
}

#[tokio::test]
async fn a_waiter_that_gives_up_or_is_dropped_leaves_the_queue() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = one.lock("a").unwrap();
    let guard = take(&lock).await;
    let waiting = two.lock("a").unwrap();
    let Attempt::Busy(busy) = waiting.acquire_within(Duration::from_millis(200)).await.unwrap() else {
        panic!("two holders")
    };
    assert_eq!(busy.place(), Some(1));
    until_waiting(&lock, 0).await;
    let dropped = tokio::spawn(async move { waiting.acquire().await });
    until_waiting(&lock, 1).await;
    dropped.abort();
    until_waiting(&lock, 0).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    assert!(lock.inspect().await.unwrap().is_free(), "nobody was given it");
}

#[tokio::test]
async fn waiting_until_free_takes_nothing() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap()).await;
    let lock = two.lock("a").unwrap();
    let onlooker = tokio::spawn({
        let lock = lock.clone();
        async move { lock.wait_until_free().await }
    });
    until_waiting(&lock, 1).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    tokio::time::timeout(SOON, onlooker).await.expect("told").unwrap().unwrap();
    eventually("it is free", SOON, async || lock.inspect().await.unwrap().is_free()).await;
}

#[tokio::test]
async fn closing_ends_waits_and_frees_holds() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let held = take(&two.lock("held").unwrap()).await;
    let guard = take(&one.lock("a").unwrap()).await;
    let waiter = tokio::spawn({
        let lock = two.lock("a").unwrap();
        async move { lock.acquire().await }
    });
    until_waiting(&one.lock("a").unwrap(), 1).await;
    two.close_within(SOON).await;
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(held.release().await.unwrap(), Outcome::Lost(LostReason::Closed));
    assert_eq!(two.lock("b").unwrap().try_acquire().await.unwrap_err().kind(), ErrorKind::Closed);
    until_waiting(&one.lock("a").unwrap(), 0).await;
    assert!(!one.lock("held").unwrap().try_acquire().await.unwrap().is_busy());
    drop(guard);
}
