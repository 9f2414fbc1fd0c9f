//! A server that cannot be reached or does not answer: an error, never an answer, that says where it
//! struck, for how long, and whether the server may have changed.

use std::time::{Duration, Instant};

use leasehold::{Client, Error, ErrorKind, Outcome, Phase};
use leasehold_testkit::{Direction, Relay, Server, eventually};
use leasehold_tests::{client, options, take};

use crate::support::{SOON, ms, through, until_taken};

/// Where an error struck, at which address, and after how long at least.
#[track_caller]
fn struck(error: &Error, kind: ErrorKind, phase: Phase, address: &str, least: Duration) {
    assert_eq!((error.kind(), error.phase()), (kind, Some(phase)), "{error}");
    assert_eq!(error.address(), Some(address), "{error}");
    assert!(error.elapsed().unwrap() >= least && error.elapsed().unwrap() < SOON, "{error}");
    let text = error.to_string();
    assert!(text.contains(address) && text.contains(&format!("phase: {phase}")), "{text}");
    let may = if error.may_have_changed_server() { "may have changed" } else { "has not changed" };
    assert!(text.contains(may), "{text}");
}

#[tokio::test]
async fn connecting_to_a_closed_port_fails_at_once() {
    let server = Server::own().await;
    server.kill().await;
    let error = options(&server).connect_timeout(Duration::from_secs(30)).connect().await.unwrap_err();
    struck(&error, ErrorKind::Unavailable, Phase::Connect, server.address(), Duration::ZERO);
    assert!(!error.may_have_changed_server());
}

#[tokio::test]
async fn connecting_to_a_server_that_is_stopped_times_out() {
    let server = Server::own().await;
    server.pause().await;
    let error = options(&server).connect_timeout(ms(300)).connect().await.unwrap_err();
    server.resume().await;
    struck(&error, ErrorKind::TimedOut, Phase::Connect, server.address(), ms(300));
    assert!(!error.may_have_changed_server());
    drop(take(&client(&server).await.lock("a").unwrap()).await);
}

#[tokio::test]
async fn connecting_into_a_black_hole_times_out_and_leaves_no_connection() {
    let server = Server::start().await;
    let relay = Relay::to(&server);
    relay.hold(Direction::Both);
    let error = through(&relay, &server).connect_timeout(ms(300)).connect().await.unwrap_err();
    struck(&error, ErrorKind::TimedOut, Phase::Connect, &relay.address(), ms(300));
    relay.let_go(); // a relay that holds does not see an end either
    eventually("it was given up", SOON, async || relay.conns().is_empty()).await;
    let accepted = relay.accepted();
    tokio::time::sleep(ms(300)).await;
    assert_eq!(relay.accepted(), accepted, "nobody goes on trying for a client that was never made");
}

#[tokio::test]
async fn connecting_to_a_host_without_a_name_fails() {
    let builder = Client::builder("redis://no-such-host.invalid:6379");
    let error = tokio::time::timeout(SOON, builder.connect()).await.expect("it fails").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut), "{error}");
    assert_eq!(error.address(), Some("no-such-host.invalid:6379"));
}

#[tokio::test]
async fn a_held_back_reply_to_a_try_is_an_error_that_says_unknown_and_leaves_no_hold() {
    let server = Server::start().await;
    let relay = Relay::to(&server);
    let client = through(&relay, &server).command_timeout(ms(150)).connect().await.unwrap();
    let lock = client.lock("a").unwrap().renewed(ms(2_000)).unwrap();
    relay.hold(Direction::ToClient);
    let error = lock.try_acquire().await.unwrap_err();
    struck(&error, ErrorKind::TimedOut, Phase::Acquire, &relay.address(), ms(150));
    assert!(error.may_have_changed_server(), "the server did take it");
    assert_eq!(error.lock(), Some(lock.name()));
    relay.let_go();
    // Whatever it took is given back, and nobody renews it.
    let other = options(&server).connect().await.unwrap();
    drop(until_taken(&other.lock("a").unwrap()).await);
    drop(until_taken(&lock).await);
}

#[tokio::test]
async fn a_black_hole_is_told_by_every_call_with_its_phase() {
    let server = Server::start().await;
    let relay = Relay::to(&server);
    let client = through(&relay, &server).command_timeout(ms(100)).connect().await.unwrap();
    let (lock, other) = (client.lock("a").unwrap(), client.lock("b").unwrap());
    let guard = take(&lock).await;
    relay.refuse();
    relay.hold(Direction::Both);
    let within = |error: Error, kinds: &[ErrorKind], phase: Phase| {
        assert!(kinds.contains(&error.kind()), "{error}");
        assert_eq!(error.phase(), Some(phase), "{error}");
        assert_eq!(error.address(), Some(relay.address().as_str()), "{error}");
        assert!(error.elapsed().unwrap() < SOON, "{error}");
    };
    let kinds = [ErrorKind::TimedOut, ErrorKind::Unavailable];
    let calls = async {
        within(other.try_acquire().await.unwrap_err(), &kinds, Phase::Acquire);
        within(lock.inspect().await.unwrap_err(), &kinds, Phase::Inspect);
        within(guard.confirm().await.unwrap_err(), &kinds, Phase::Renew);
        within(guard.extend_to(Duration::from_secs(60)).await.unwrap_err(), &kinds, Phase::Renew);
        assert!(guard.is_held(), "time remains: a failed question is no loss");
        assert_eq!(guard.release().await.unwrap(), Outcome::Unknown);
    };
    tokio::time::timeout(SOON * 2, calls).await.expect("no call hangs");
}

#[tokio::test]
async fn a_timed_wait_ends_in_time_whatever_the_server_does() {
    let server = Server::own().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap()).await;
    let lock = two.lock("a").unwrap();
    for trouble in ["none", "paused", "dead"] {
        match trouble {
            "paused" => server.pause().await,
            "dead" => {
                server.resume().await;
                server.kill().await;
            }
            _ => {}
        }
        let began = Instant::now();
        let ended = lock.acquire_within(ms(500)).await;
        assert!(began.elapsed() >= ms(500) || trouble != "none", "{trouble}");
        assert!(began.elapsed() < SOON, "{trouble}: {:?}", began.elapsed());
        match (trouble, ended) {
            ("none", Ok(attempt)) => assert!(attempt.is_busy()),
            ("paused" | "dead", Err(error)) => {
                assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::Unavailable), "{error}");
                assert!(error.phase().is_some() && error.elapsed().unwrap() < SOON, "{error}");
            }
            (_, ended) => panic!("{trouble}: {ended:?}"),
        }
    }
    assert!(guard.is_held(), "its lease of 30 s is longer than all of this");
}

#[tokio::test]
async fn a_command_time_out_of_long_is_waited_for() {
    let server = Server::own().await;
    let client = options(&server).command_timeout(Duration::from_secs(20)).connect().await.unwrap();
    let lock = client.lock("a").unwrap();
    drop(take(&lock).await);
    server.pause().await;
    let trying = tokio::spawn({
        let lock = client.lock("b").unwrap();
        async move { take(&lock).await }
    });
    // Case X12: a stall longer than the usual 500 ms of client libraries.
    tokio::time::sleep(ms(900)).await;
    assert!(!trying.is_finished());
    server.resume().await;
    assert!(trying.await.unwrap().confirm().await.is_ok());
}

#[tokio::test]
async fn a_full_server_says_so_and_still_lets_go() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let held = take(&client.lock("a").unwrap()).await;
    admin.call(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = client.lock("b").unwrap().try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.may_have_changed_server()), (ErrorKind::ServerFull, false), "{error}");
    assert!(held.confirm().await.is_ok(), "a hold goes on");
    assert_eq!(held.release().await.unwrap(), Outcome::Released);
    admin.call(&["CONFIG", "SET", "maxmemory", "0"]).await;
    drop(until_taken(&client.lock("b").unwrap()).await);
}
