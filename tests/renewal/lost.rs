//! Holds that end before their release: each with its reason, told once.

use std::time::{Duration, Instant};

use leasehold::{ErrorKind, Evicted, HoldState, LostReason, Outcome};
use leasehold_testkit::{Server, eventually};
use leasehold_tests::{client, take};

use crate::support::{LEASE, Log, SOON, exists, lost, pttl, quiet, throughout};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn case_l2_a_fixed_hold_that_ends_is_lost_and_says_so_everywhere() {
    let server = Server::own().await;
    let client = client(&server).await;
    let log = Log::keep();
    let lock = client.lock("a").unwrap().fixed(SECOND).unwrap();
    let began = Instant::now();
    let guard = take(&lock).await;
    let states = guard.states();
    assert_eq!(lost(&guard).await, LostReason::Expired);
    assert!(began.elapsed() > SECOND / 2, "not before its time");
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
    assert_eq!(*states.borrow(), HoldState::Lost(LostReason::Expired));
    assert!(guard.cancellation_token().is_cancelled());
    assert_eq!(guard.confirm().await.unwrap_err().kind(), ErrorKind::Lost);
    // The lock is not stuck in this process: another task has it at once.
    let other = lock.acquire().await.unwrap();
    assert!(!guard.is_held() && other.is_held());
    assert_eq!(guard.release().await.unwrap(), Outcome::Lost(LostReason::Expired));
    assert!(other.is_held(), "the late release touched nobody else's hold");
    assert_eq!(other.release().await.unwrap(), Outcome::Released);
    assert_eq!(log.with("lock lost").len(), 1, "told once");
}

/// Nobody looks and nothing fires: the first look after the end says so all the same.
#[tokio::test]
async fn case_l2_a_look_past_the_end_needs_no_timer() {
    let server = Server::own().await;
    let client = client(&server).await;
    let guard = take(&client.lock("a").unwrap().fixed(SECOND).unwrap()).await;
    let renewed = take(&client.lock("b").unwrap().renewed(SECOND).unwrap()).await;
    // The one thread of this runtime sleeps: no task of the client runs.
    std::thread::sleep(SECOND);
    assert!(!guard.is_held() && !renewed.is_held());
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
    assert_eq!(renewed.state(), HoldState::Lost(LostReason::Expired));
    assert_eq!(lost(&renewed).await, LostReason::Expired);
    assert_eq!(renewed.confirm().await.unwrap_err().lost_reason(), Some(LostReason::Expired));
    assert_eq!(renewed.release().await.unwrap(), Outcome::Lost(LostReason::Expired));
}

#[tokio::test]
async fn case_l5_each_way_to_lose_a_hold_has_an_outcome_of_its_own() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = one.lock("a").unwrap();

    let deleted = take(&lock).await;
    admin.call(&["DEL", "t:a"]).await;
    assert_eq!(deleted.release().await.unwrap(), Outcome::Lost(LostReason::Gone));

    let evicted = take(&lock).await;
    let seen = two.lock("a").unwrap().inspect().await.unwrap();
    assert_eq!(two.lock("a").unwrap().force_release(&seen).await.unwrap(), Evicted::Freed);
    let successor = take(&two.lock("a").unwrap()).await;
    assert_eq!(evicted.release().await.unwrap(), Outcome::Lost(LostReason::Taken));
    assert!(successor.confirm().await.is_ok(), "the late release touched nobody else's hold");
    assert_eq!(successor.release().await.unwrap(), Outcome::Released);

    let expired = take(&lock.fixed(Duration::from_millis(200)).unwrap()).await;
    lost(&expired).await;
    assert_eq!(expired.release().await.unwrap(), Outcome::Lost(LostReason::Expired));
}

/// The guard learns of it at the next renewal, without being asked.
#[tokio::test]
async fn case_x18_a_hold_that_was_deleted_or_taken_is_lost_at_the_next_renewal() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let log = Log::keep();
    let lock = one.lock("a").unwrap().renewed(LEASE).unwrap();
    let guard = take(&lock).await;
    admin.call(&["DEL", "t:a"]).await;
    assert_eq!(lost(&guard).await, LostReason::Gone);
    drop(guard);

    let guard = take(&lock).await;
    admin.call(&["DEL", "t:a"]).await;
    let other = take(&two.lock("a").unwrap()).await;
    assert_eq!(lost(&guard).await, LostReason::Taken);
    assert!(other.confirm().await.is_ok());
    assert_eq!(log.with("lock lost").len(), 2, "each told once");
    quiet(&mut admin, LEASE).await;
}

#[tokio::test]
async fn max_hold_ends_a_renewed_hold_for_its_waiters() {
    let server = Server::own().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let limit = Duration::from_millis(2_500);
    // The lease is far longer: only the release at the limit can let the other one in so soon.
    let lock = one.lock("a").unwrap().max_hold(limit).unwrap();
    let began = Instant::now();
    let guard = take(&lock).await;
    let next = tokio::spawn({
        let lock = two.lock("a").unwrap();
        async move { lock.acquire_within(SOON).await.unwrap().acquired() }
    });
    assert_eq!(lost(&guard).await, LostReason::MaxHold);
    assert!(began.elapsed() >= limit, "not before its time");
    let next = next.await.unwrap().expect("the waiter is served");
    assert!(!guard.is_held() && next.is_held());
    assert_eq!(guard.release().await.unwrap(), Outcome::Lost(LostReason::MaxHold));
}

/// A renewed hold with a short lease reaches its limit by being renewed.
#[tokio::test]
async fn max_hold_is_reached_by_renewals() {
    let server = Server::own().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap().renewed(SECOND).unwrap().max_hold(SECOND * 3).unwrap();
    let began = Instant::now();
    let guard = take(&lock).await;
    assert_eq!(lost(&guard).await, LostReason::MaxHold);
    assert!(began.elapsed() >= SECOND * 3);
    drop(guard);
    drop(lock.acquire().await.unwrap());
}

#[tokio::test]
async fn extend_to_moves_the_end_later_and_never_sooner() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let fixed = take(&client.lock("a").unwrap().fixed(SECOND * 5).unwrap()).await;
    assert!(fixed.extend_to(SECOND * 60).await.unwrap() > SECOND * 30);
    assert!(fixed.remaining() > SECOND * 30);
    assert!(fixed.extend_to(SECOND).await.unwrap() > SECOND * 30, "it never shortens");
    assert!(fixed.extend_to(SECOND * 60).await.unwrap() < SECOND * 60, "it never adds up");
    assert!(pttl(&mut admin, "t:a").await <= SECOND * 60);
    assert_eq!(fixed.extend_to(Duration::ZERO).await.unwrap_err().kind(), ErrorKind::Invalid);
    let before = pttl(&mut admin, "t:a").await;
    throughout(SECOND, async || assert!(pttl(&mut admin, "t:a").await <= before, "renewed")).await;

    // A renewed hold goes on being renewed afterwards.
    let renewed = take(&client.lock("b").unwrap().renewed(LEASE).unwrap()).await;
    assert!(renewed.extend_to(LEASE * 2).await.unwrap() > LEASE);
    throughout(LEASE * 4, async || assert!(renewed.is_held(), "{renewed:?}")).await;
    assert_eq!(renewed.release().await.unwrap(), Outcome::Released);
    assert_eq!(fixed.release().await.unwrap(), Outcome::Released);
    assert!(!exists(&mut admin, "t:a").await && !exists(&mut admin, "t:b").await);
}

#[tokio::test]
async fn an_extended_fixed_hold_ends_at_its_new_time() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let began = Instant::now();
    let guard = take(&client.lock("a").unwrap().fixed(SECOND).unwrap()).await;
    let _ = guard.extend_to(SECOND * 3).await.unwrap();
    assert_eq!(lost(&guard).await, LostReason::Expired);
    assert!(began.elapsed() > SECOND * 2, "at its new end");
    eventually("the key is gone", SOON, async || !exists(&mut admin, "t:a").await).await;
}
