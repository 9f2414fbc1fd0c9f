//! What must be refused is refused before any command, by an error that names the rule.

use std::time::Duration;

use leasehold::{Client, ClientBuilder, Error, ErrorKind, Outcome};
use leasehold_testkit::{Admin, Relay, Server, Stats, stats};
use leasehold_tests::{client, options, take};

use crate::support::ms;

/// What the library's connections may send in the meantime on their own.
const BACKGROUND: [&str; 4] = ["ping", "info", "auth", "acl|whoami"];

async fn sent_since(admin: &mut Admin, before: &Stats) -> Vec<(String, u64)> {
    let sent = stats(admin).await - before.clone();
    let real = sent.iter().filter(|(command, _)| !BACKGROUND.contains(command));
    real.map(|(command, calls)| (command.to_owned(), calls)).collect()
}

#[track_caller]
fn refused(error: &Error, rule: &str) {
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(!error.may_have_changed_server(), "{error}");
    assert_eq!(error.phase(), None, "nothing was sent: {error}");
    assert!(error.to_string().contains(rule), "{rule:?} is not named in: {error}");
}

#[tokio::test]
async fn must_9_names_that_would_break_are_refused_before_any_command() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let before = stats(&mut admin).await;
    let long = "x".repeat(513);
    let long_with_prefix = "x".repeat(511); // with the prefix, t:, one too many
    for (name, rule) in [
        ("", "empty"),
        (long.as_str(), "at most 512"),
        (long_with_prefix.as_str(), "at most 512"),
        ("foo{bar", "braces"),
        ("foo}bar", "braces"),
        ("{}x", "braces"),
        ("x{}", "braces"),
        ("a{b}:queue", "`:queue`"),
        ("a{b}:fence", "`:fence`"),
        ("a{b}:waiters", "`:waiters`"),
    ] {
        refused(&client.lock(name).unwrap_err(), rule);
    }
    assert_eq!(sent_since(&mut admin, &before).await, [], "none sent");
    // The longest that is allowed, and odd ones that break nothing.
    let longest = "x".repeat(512 - server.prefix().len());
    for name in [longest.as_str(), "a{b}c", "ключ", "nul\0and\nnew line", "jobs:queue", " "] {
        let guard = take(&client.lock(name).unwrap()).await;
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

#[tokio::test]
async fn must_9_without_a_prefix_a_name_that_is_wholly_a_hash_tag_is_refused() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = Client::connect(&server.url()).await.unwrap();
    let before = stats(&mut admin).await;
    refused(&client.lock("{lock:a}").unwrap_err(), "wholly a hash tag");
    refused(&client.lock("{lock:a}:queue").unwrap_err(), "`:queue`");
    assert_eq!(sent_since(&mut admin, &before).await, []);
}

#[tokio::test]
async fn must_9_durations_and_labels_out_of_bounds_are_refused_before_any_command() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    let guard = take(&lock).await;
    let before = stats(&mut admin).await;
    let too_long = Duration::from_secs(24 * 3_600) + ms(1);
    for bad in [Duration::ZERO, ms(1), ms(199)] {
        refused(&lock.clone().renewed(bad).unwrap_err(), "the shortest is 200ms");
        refused(&lock.clone().fixed(bad).unwrap_err(), "the shortest is 200ms");
        refused(&lock.clone().max_hold(bad).unwrap_err(), "the shortest is 200ms");
        refused(&guard.extend_to(bad).await.unwrap_err(), "the shortest is 200ms");
    }
    for bad in [too_long, Duration::MAX] {
        refused(&lock.clone().renewed(bad).unwrap_err(), "the longest is");
        refused(&lock.clone().fixed(bad).unwrap_err(), "the longest is");
        refused(&guard.extend_to(bad).await.unwrap_err(), "the longest is");
    }
    refused(&lock.acquire_within(Duration::ZERO).await.unwrap_err(), "try_acquire");
    refused(&lock.clone().label(&"x".repeat(33)).unwrap_err(), "at most 32");
    refused(&lock.clone().label("two\nlines").unwrap_err(), "control character");
    let error = lock.clone().renewed(ms(1)).unwrap_err();
    assert_eq!(error.lock(), Some(lock.name()), "it says which lock");
    assert_eq!(sent_since(&mut admin, &before).await, [], "none sent");
    assert!(guard.is_held());
}

#[tokio::test]
async fn must_9_the_bounds_themselves_work() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    let day = Duration::from_secs(24 * 3_600);
    for lock in [
        lock.clone().renewed(ms(200)).unwrap(),
        lock.clone().fixed(ms(200)).unwrap(),
        lock.clone().renewed(day).unwrap(),
        lock.clone().fixed(day).unwrap(),
        lock.clone().max_hold(ms(200)).unwrap(),
        lock.clone().max_hold(Duration::MAX).unwrap(),
        lock.clone().label(&"x".repeat(32)).unwrap(),
        lock.clone().label("").unwrap(),
    ] {
        drop(take(&lock).await);
        assert_eq!(lock.acquire().await.unwrap().release().await.unwrap(), Outcome::Released);
        let guard = lock.acquire_within(Duration::MAX).await.unwrap().acquired().unwrap();
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

#[tokio::test]
async fn must_9_client_options_out_of_bounds_are_refused_before_a_connection_is_made() {
    let server = Server::start().await;
    let relay = Relay::to(&server);
    let with = |change: fn(ClientBuilder) -> ClientBuilder| change(Client::builder(&relay.url()));
    let cases: [(ClientBuilder, &str); 12] = [
        (with(|b| b.lease(ms(199))), "the shortest is 200ms"),
        (with(|b| b.lease(Duration::MAX)), "the longest is"),
        (with(|b| b.margin(Duration::from_secs(11))), "margin"),
        (with(|b| b.connect_timeout(Duration::ZERO)), "connect time-out"),
        (with(|b| b.connect_timeout(Duration::MAX)), "connect time-out"),
        (with(|b| b.command_timeout(ms(9))), "command time-out"),
        (with(|b| b.command_timeout(Duration::from_secs(61))), "command time-out"),
        (with(|b| b.retry(ms(2), ms(1), ms(0))), "above its cap"),
        (with(|b| b.retry(ms(1), Duration::from_secs(61), ms(0))), "at most 60s"),
        (with(|b| b.retry(ms(1), ms(1), Duration::MAX)), "at most 60s"),
        (with(|b| b.label(&"x".repeat(33))), "at most 32"),
        (with(|b| b.label("a\tb")), "control character"),
    ];
    for (builder, rule) in cases {
        refused(&builder.connect().await.unwrap_err(), rule);
    }
    assert_eq!(relay.accepted(), 0, "not one connection");
    // Every option at a bound.
    let client = Client::builder(&relay.url())
        .prefix(server.prefix())
        .lease(ms(200))
        .margin(Duration::ZERO)
        .connect_timeout(Duration::from_secs(60))
        .command_timeout(Duration::from_secs(60))
        .retry(Duration::ZERO, Duration::ZERO, Duration::ZERO)
        .connect()
        .await
        .unwrap();
    drop(take(&client.lock("a").unwrap()).await);
}

#[tokio::test]
async fn must_9_an_owner_of_another_lock_is_refused_before_any_command() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = options(&server).connect().await.unwrap();
    let (a, b) = (client.lock("a").unwrap(), client.lock("b").unwrap());
    let guard = take(&a).await;
    let before = stats(&mut admin).await;
    refused(&b.acquire_as(&guard.owner()).unwrap_err(), "this owner holds");
    assert_eq!(sent_since(&mut admin, &before).await, []);
}
