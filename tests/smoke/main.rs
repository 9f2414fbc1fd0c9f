//! The promises in short, for every server and every way to start one.

#[cfg(test)]
mod holding;
#[cfg(test)]
mod losing;
#[cfg(test)]
mod others;
#[cfg(test)]
mod waiting;

use std::time::Duration;

use leasehold::{Attempt, Outcome};
use leasehold_testkit::Server;
use leasehold_tests::{client, take};

#[tokio::test]
async fn twenty_tries_one_wins() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    let mut tries = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let lock = lock.clone();
        tries.spawn(async move { lock.try_acquire().await.unwrap() });
    }
    let all = tries.join_all().await;
    assert_eq!(all.iter().filter(|attempt| !attempt.is_busy()).count(), 1);
}

#[tokio::test]
async fn a_release_frees_and_a_drop_too() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    let guard = take(&lock).await;
    let first = guard.token();
    assert!(guard.is_held());
    assert!(guard.confirm().await.unwrap() > Duration::from_secs(20));
    assert!(!lock.inspect().await.unwrap().is_free());
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    assert!(lock.inspect().await.unwrap().is_free());
    let guard = take(&lock).await;
    assert!(guard.token() > first);
    drop(guard);
    let guard = lock.acquire().await.unwrap();
    drop(guard);
}

#[tokio::test]
async fn a_waiter_of_another_client_is_served_by_push() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap()).await;
    let lock = two.lock("a").unwrap();
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    leasehold_testkit::eventually("somebody waits", Duration::from_secs(5), async || {
        lock.inspect().await.unwrap().held().is_some_and(|hold| hold.waiters() == 1)
    })
    .await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    let guard = waiter.await.unwrap();
    assert!(guard.is_held());
    let Attempt::Busy(busy) =
        one.lock("a").unwrap().acquire_within(Duration::from_millis(300)).await.unwrap()
    else {
        panic!("two holders")
    };
    assert_eq!(busy.place(), Some(1));
    assert!(busy.to_string().starts_with("held by "), "{busy}");
    two.close_within(Duration::from_secs(2)).await;
    assert!(!guard.is_held());
    one.close_within(Duration::from_secs(2)).await;
}
