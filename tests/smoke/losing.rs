//! When a hold is lost, and when the server cannot be reached.

use std::time::Duration;

use leasehold::{Attempt, Client, ErrorKind, Evicted, LostReason, Outcome, Phase};
use leasehold_testkit::{Direction, Relay, Server, eventually};
use leasehold_tests::{client, take};

const SOON: Duration = Duration::from_secs(8);

#[tokio::test]
async fn a_holder_that_is_cut_off_is_told_before_anybody_else_holds_the_lock() {
    let server = Server::start().await;
    let relay = Relay::to(&server);
    let cut = Client::builder(&relay.url()).prefix(server.prefix()).connect().await.unwrap();
    let guard = take(&cut.lock("a").unwrap().renewed(Duration::from_millis(1_500)).unwrap()).await;
    let states = guard.states();
    let stop = guard.cancellation_token();
    let lock = client(&server).await.lock("a").unwrap();
    relay.hold(Direction::Both);
    eventually("it sees it coming", SOON, async || states.borrow().is_at_risk() || !guard.is_held()).await;
    let next = tokio::time::timeout(SOON, lock.acquire()).await.expect("the lease ended").unwrap();
    assert!(!guard.is_held() && stop.is_cancelled(), "told first");
    assert_eq!(guard.lost().await, LostReason::Unreachable);
    assert!(next.token() > guard.token(), "and a store that checks tokens refuses its late writes");
    relay.let_go();
    assert_eq!(guard.release().await.unwrap(), Outcome::Lost(LostReason::Unreachable));
    assert!(next.confirm().await.is_ok(), "its release leaves the next one's lock");
}

#[tokio::test]
async fn a_deleted_record_is_told() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    let guard = take(&lock.clone().renewed(Duration::from_millis(900)).unwrap()).await;
    server.admin().await.call(&["DEL", lock.name()]).await;
    assert_eq!(tokio::time::timeout(SOON, guard.lost()).await.expect("told"), LostReason::Gone);
    assert_eq!(guard.confirm().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(guard.release().await.unwrap(), Outcome::Lost(LostReason::Gone));
}

#[tokio::test]
async fn force_frees_what_was_seen_and_its_holder_is_told_by_push() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let held = take(&two.lock("warm").unwrap()).await;
    // Its first wait opens the push channel.
    let Attempt::Busy(_) =
        one.lock("warm").unwrap().acquire_within(Duration::from_millis(200)).await.unwrap()
    else {
        panic!("two holders")
    };
    drop(held);
    let guard = take(&one.lock("a").unwrap()).await;
    let ops = two.lock("a").unwrap();
    let seen = ops.inspect().await.unwrap();
    assert_eq!(ops.force_release(&seen).await.unwrap(), Evicted::Freed);
    assert_eq!(ops.force_release(&seen).await.unwrap(), Evicted::Changed);
    // Its next renewal is 10 s away.
    let reason = tokio::time::timeout(Duration::from_secs(5), guard.lost()).await.expect("pushed");
    assert_eq!(reason, LostReason::Taken);
}

#[tokio::test]
async fn a_cut_connection_is_made_again() {
    let server = Server::start().await;
    let relay = Relay::to(&server);
    let client = Client::builder(&relay.url()).prefix(server.prefix()).connect().await.unwrap();
    let lock = client.lock("a").unwrap();
    let guard = take(&lock).await;
    relay.cut();
    eventually("the hold is confirmed", SOON, async || guard.confirm().await.is_ok()).await;
    relay.cut();
    eventually("the lock can be had again", SOON, async || {
        lock.inspect().await.is_ok_and(|seen| seen.held().is_some())
    })
    .await;
    assert!(guard.is_held());
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_an_error_and_never_an_answer() {
    let server = Server::start().await;
    let relay = Relay::to(&server);
    let quick = Client::builder(&relay.url()).command_timeout(Duration::from_millis(150));
    let client = quick.prefix(server.prefix()).connect().await.unwrap();
    relay.hold(Direction::ToClient);
    let error = client.lock("a").unwrap().try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.phase()), (ErrorKind::TimedOut, Some(Phase::Acquire)), "{error}");
    assert!(error.may_have_changed_server(), "{error}");
    relay.let_go();
    let lock = leasehold_tests::client(&server).await.lock("a").unwrap();
    eventually("what it may have taken is given back", SOON, async || {
        lock.inspect().await.unwrap().is_free()
    })
    .await;
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    for _ in 0..5 {
        let guard = take(&client.lock("a").unwrap()).await;
        admin.call(&["SCRIPT", "FLUSH"]).await;
        guard.confirm().await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}
