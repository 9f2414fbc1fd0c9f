//! The server cannot be reached: for a while, or until the lease is over.

use std::time::{Duration, Instant};

use leasehold::{ErrorKind, Guard, HoldState, LostReason, Outcome};
use leasehold_testkit::{Relay, Server, eventually};
use leasehold_tests::{client, options, take};
use tokio::task::JoinHandle;

use crate::support::{LEASE, Log, SOON, exists, lost, options_through, throughout};

/// Long enough that the margins of a hold, a good tenth of it, are more than a busy machine's delays.
const LONG: Duration = Duration::from_secs(3);

/// Every state that the hold is seen in, with its time, until it is over.
fn watch(guard: &Guard) -> JoinHandle<Vec<(Instant, HoldState)>> {
    let mut states = guard.states();
    tokio::spawn(async move {
        let mut seen = Vec::new();
        loop {
            let state = *states.borrow_and_update();
            seen.push((Instant::now(), state));
            if state.is_lost() || state == HoldState::Released || states.changed().await.is_err() {
                return seen;
            }
        }
    })
}

#[tokio::test]
async fn case_r16_a_hold_survives_an_outage_shorter_than_its_lease() {
    let server = Server::builder().arg("appendonly", "yes").arg("appendfsync", "always").start().await;
    // Connects again at least every 200 ms, so that an outage that is over is soon over here.
    let ms = Duration::from_millis;
    let client = options(&server).retry(ms(20), ms(200), ms(20)).connect().await.unwrap();
    let lease = LONG * 3 / 2;
    let lock = client.lock("a").unwrap().renewed(lease).unwrap();
    let guard = take(&lock).await;
    let token = guard.token();
    let seen = watch(&guard);
    server.kill().await;
    eventually("a renewal fails", SOON, async || guard.state().is_at_risk()).await;
    assert!(guard.is_held(), "at risk is not lost");
    server.restart().await;
    eventually("a renewal goes through", SOON, async || guard.state() == HoldState::Safe).await;
    throughout(lease, async || assert!(guard.is_held(), "{guard:?}")).await;
    assert_eq!(guard.token(), token);
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    let seen = seen.await.unwrap();
    assert!(seen.iter().any(|(_, state)| state.is_at_risk()), "{seen:?}");
    assert!(!seen.iter().any(|(_, state)| state.is_lost()), "{seen:?}");
}

#[tokio::test]
async fn case_l1_an_unreachable_server_is_seen_as_risk_then_told_as_loss_within_the_lease() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let relay = Relay::to(&server);
    let client = options_through(&server, &relay).connect().await.unwrap();
    let log = Log::keep();
    let lock = client.lock("a").unwrap().renewed(LONG).unwrap();
    let guard = take(&lock).await;
    let (seen, cancelled) = (watch(&guard), guard.cancellation_token());
    relay.refuse();
    relay.cut();
    assert_eq!(lost(&guard).await, LostReason::Unreachable);
    assert!(exists(&mut admin, "t:a").await, "told while nobody else could have it");
    assert!(cancelled.is_cancelled() && guard.cancellation_token().is_cancelled());
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);

    // Whatever happens afterwards, it stays so and is not told again.
    relay.accept();
    eventually("the server answers", SOON, async || lock.inspect().await.is_ok()).await;
    let error = guard.confirm().await.unwrap_err();
    assert_eq!(error.lost_reason(), Some(LostReason::Unreachable), "{error}");
    let error = guard.extend_to(LONG).await.unwrap_err();
    assert_eq!((error.kind(), error.lost_reason()), (ErrorKind::Lost, Some(LostReason::Unreachable)));
    eventually("what it left is passed", SOON, async || !exists(&mut admin, "t:a").await).await;
    throughout(LEASE, async || assert!(!guard.is_held() && !guard.states().has_changed().unwrap())).await;
    assert_eq!(lost(&guard).await, LostReason::Unreachable);
    assert_eq!(guard.release().await.unwrap(), Outcome::Lost(LostReason::Unreachable));

    let seen: Vec<_> = seen.await.unwrap().into_iter().map(|(_, state)| state).collect();
    assert!(
        matches!(
            seen[..],
            [HoldState::Safe, HoldState::AtRisk { .. }, HoldState::Lost(LostReason::Unreachable)]
        ),
        "{seen:?}"
    );
    assert_eq!(log.with("lock lost").len(), 1, "told once");
    assert_eq!(log.with("at risk").len(), 1, "warned once");
}

/// Silence instead of refusal: nothing is closed, and nothing comes through.
#[tokio::test]
async fn case_l3_an_isolated_holder_is_told_before_another_client_has_the_lock() {
    let server = Server::own().await;
    for cut in [true, false] {
        let relay = Relay::to(&server);
        let isolated = options_through(&server, &relay).connect().await.unwrap();
        let other = client(&server).await;
        let guard = take(&isolated.lock("a").unwrap().renewed(LONG).unwrap()).await;
        let first = guard.token();
        let held = guard.held();
        let told = tokio::spawn(async move {
            let reason = lost(&guard).await;
            (Instant::now(), reason)
        });
        let next = tokio::spawn(async move {
            let guard = other.lock("a").unwrap().acquire().await.unwrap();
            (Instant::now(), held.is_held(), guard)
        });
        if cut {
            relay.refuse();
            relay.cut();
        } else {
            relay.hold(leasehold_testkit::Direction::Both);
        }
        let (told, reason) = told.await.unwrap();
        let (got, still_held, guard) = next.await.unwrap();
        assert_eq!(reason, LostReason::Unreachable);
        assert!(!still_held, "two holders");
        assert!(told < got, "told {:?} too late", told.duration_since(got));
        assert!(guard.token() > first);
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

/// A pause of the server, its connections open: the same, without a new connection in between.
#[tokio::test]
async fn case_r16_a_hold_survives_a_server_that_stands_still_for_half_a_lease() {
    let server = Server::own().await;
    let client = client(&server).await;
    let guard = take(&client.lock("a").unwrap().renewed(LONG).unwrap()).await;
    server.pause().await;
    eventually("a renewal fails", SOON, async || guard.state().is_at_risk()).await;
    server.resume().await;
    eventually("a renewal goes through", SOON, async || guard.state() == HoldState::Safe).await;
    throughout(LONG, async || assert!(guard.is_held(), "{guard:?}")).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}
