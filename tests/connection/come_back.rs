//! Connections that break and servers that come back: the client goes on working.

use std::time::Duration;

use leasehold::{LostReason, Outcome};
use leasehold_testkit::{Relay, Server, eventually, stats};
use leasehold_tests::{client, options, take};

use crate::support::{SOON, ms, through, until_taken, until_waiting};

#[tokio::test]
async fn a_cut_idle_connection_is_made_again_by_itself() {
    let server = Server::start().await;
    let relay = Relay::to(&server);
    let client = through(&relay, &server).connect().await.unwrap();
    let lock = client.lock("a").unwrap();
    drop(take(&lock).await);
    for round in 1..=5 {
        relay.cut();
        eventually("a new connection", SOON, async || relay.accepted() > round).await;
        let guard = until_taken(&lock).await;
        assert_eq!(guard.release().await.unwrap(), Outcome::Released, "round {round}");
    }
}

#[tokio::test]
async fn a_try_on_a_connection_that_has_just_been_cut_succeeds() {
    let server = Server::start().await;
    let relay = Relay::to(&server);
    let client = through(&relay, &server).connect().await.unwrap();
    for n in 0..20 {
        let lock = client.lock(&format!("a{n}")).unwrap();
        relay.cut();
        // Three attempts with delays of 20 and 40 ms are made for it; here it may need them all.
        let guard = until_taken(&lock).await;
        assert!(guard.confirm().await.is_ok() || !guard.is_held());
        drop(guard);
    }
}

#[tokio::test]
async fn a_waiter_keeps_its_place_when_its_connections_are_cut() {
    let server = Server::start().await;
    let relay = Relay::to(&server);
    let (cut, other) = (through(&relay, &server).connect().await.unwrap(), client(&server).await);
    let guard = take(&other.lock("a").unwrap()).await;
    let wait = |client: &leasehold::Client| {
        let lock = client.lock("a").unwrap();
        tokio::spawn(async move { lock.acquire().await.unwrap() })
    };
    let watch = other.lock("a").unwrap();
    let first = wait(&cut);
    until_waiting(&watch, 1).await;
    let second = wait(&other);
    until_waiting(&watch, 2).await;
    let before = relay.accepted();
    relay.cut();
    eventually("both connections are new", SOON, async || relay.accepted() >= before + 2).await;
    // It is confirmed before it counts; then it is reachable again.
    let channel = async || watch.inspect().await.unwrap().held().unwrap().waiters();
    assert_eq!(channel().await, 2);
    let mut admin = server.admin().await;
    eventually("it listens again", SOON, async || {
        admin.call(&["PUBSUB", "CHANNELS", &format!("{}*", server.prefix())]).await.array().len() == 2
    })
    .await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    let next = tokio::time::timeout(SOON, first).await.expect("served").unwrap();
    assert!(!second.is_finished(), "not overtaken");
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
    let next = tokio::time::timeout(SOON, second).await.expect("served").unwrap();
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn a_server_that_restarts_empty_ends_the_hold_and_serves_again() {
    let server = Server::own().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap().renewed(ms(2_000)).unwrap();
    let guard = take(&lock).await;
    let token = guard.token();
    server.restart().await;
    let reason = tokio::time::timeout(SOON, guard.lost()).await.expect("told");
    assert!(matches!(reason, LostReason::Gone | LostReason::Unreachable), "{reason}");
    let again = until_taken(&lock).await;
    assert!(again.token() > token, "a counter that is gone gives a larger number");
    tokio::time::sleep(ms(4_500)).await;
    assert!(again.confirm().await.is_ok(), "and later holds are renewed");
}

#[tokio::test]
async fn a_server_that_restarts_with_its_data_keeps_the_hold() {
    let server = Server::builder().arg("appendonly", "yes").arg("appendfsync", "always").start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap().renewed(Duration::from_secs(20)).unwrap();
    let guard = take(&lock).await;
    server.restart().await;
    eventually("it is confirmed", SOON, async || guard.confirm().await.is_ok()).await;
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn a_client_waits_out_a_dead_server_and_is_served_when_it_is_back() {
    let server = Server::own().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    server.kill().await;
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    tokio::time::sleep(ms(700)).await;
    assert!(!waiter.is_finished(), "without a limit it goes on trying");
    server.restart().await;
    let guard = tokio::time::timeout(SOON, waiter).await.expect("served").unwrap();
    assert!(guard.confirm().await.is_ok());
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again_unseen() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    for _ in 0..20 {
        admin.call(&["SCRIPT", "FLUSH"]).await;
        let guard = take(&lock).await;
        admin.call(&["SCRIPT", "FLUSH"]).await;
        guard.confirm().await.unwrap();
        admin.call(&["SCRIPT", "FLUSH"]).await;
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
    let before = stats(&mut admin).await;
    for _ in 0..20 {
        assert_eq!(take(&lock).await.release().await.unwrap(), Outcome::Released);
    }
    let sent = stats(&mut admin).await - before;
    assert!(
        sent.of("eval") <= 1 && sent.of("evalsha") <= 41,
        "its text is sent only when asked for: {sent:?}"
    );
}

#[tokio::test]
async fn a_relay_that_refuses_for_a_while_is_survived_by_a_long_hold() {
    let server = Server::start().await;
    let relay = Relay::to(&server);
    let client = through(&relay, &server).lease(Duration::from_secs(6)).connect().await.unwrap();
    let guard = take(&client.lock("a").unwrap()).await;
    let states = guard.states();
    relay.refuse();
    relay.cut();
    eventually("it sees the loss coming", SOON, async || states.borrow().is_at_risk()).await;
    assert!(guard.is_held(), "time remains");
    relay.accept();
    eventually("it is safe again", SOON, async || !states.borrow().is_at_risk()).await;
    assert!(guard.confirm().await.is_ok());
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn many_clients_come_back_without_a_storm() {
    let server = Server::own().await;
    let mut clients = Vec::new();
    for n in 0..10 {
        clients.push(options(&server).label(&format!("c{n}")).connect().await.unwrap());
    }
    server.kill().await;
    tokio::time::sleep(ms(400)).await;
    server.restart().await;
    for client in &clients {
        drop(until_taken(&client.lock("a").unwrap()).await);
    }
    let mut admin = server.admin().await;
    let info = admin.call(&["INFO", "stats"]).await.text();
    let received: u64 = info
        .lines()
        .find_map(|line| line.strip_prefix("total_connections_received:"))
        .and_then(|count| count.trim().parse().ok())
        .unwrap();
    // One each, the testkit's own, and some that were cut while the server was starting.
    assert!(received < 100, "{received} connections for ten clients");
}
