//! A limit is a limit in every phase, and a server that is down is an error with its cause.

use std::time::{Duration, Instant};

use leasehold::{Attempt, Client, ErrorKind, Phase};
use leasehold_testkit::{Direction, Relay, Server, eventually};
use leasehold_tests::eye::Eye;
use leasehold_tests::{client, take};

use crate::{LONG, within};

const LIMIT: Duration = Duration::from_millis(300);

/// Far above the limit; below the time-outs of a command and a connection, which are the other
/// things that could end the wait.
const LATE: Duration = Duration::from_secs(8);

async fn patient(url: &str, server: &Server) -> Client {
    let patient = Duration::from_secs(15);
    let options = Client::builder(url).prefix(server.prefix());
    options.connect_timeout(patient).command_timeout(patient).connect().await.unwrap()
}

/// Waits for the lock for `LIMIT`, and says how it ended if that took neither less nor much more.
async fn limited(what: &str, client: &Client) -> Result<Attempt, leasehold::Error> {
    let begun = Instant::now();
    let ended = client.lock("a").unwrap().acquire_within(LIMIT).await;
    let took = begun.elapsed();
    println!("{what}: {took:?}: {ended:?}");
    assert!((LIMIT..LATE).contains(&took), "{what}: {took:?}");
    ended
}

#[tokio::test]
async fn case_x37_a_limit_holds_in_every_phase() {
    let server = Server::own().await;
    let relay = Relay::to(&server);
    let other = client(&server).await;
    let guard = take(&other.lock("a").unwrap()).await;
    let waiting = patient(&relay.url(), &server).await;

    relay.hold(Direction::ToClient);
    let error = limited("take", &waiting).await.unwrap_err();
    assert_eq!((error.kind(), error.phase()), (ErrorKind::TimedOut, Some(Phase::Acquire)), "{error}");
    assert!(error.may_have_changed_server());
    relay.let_go();

    // The first command is answered; the push connection is the next to be made, and silent.
    let commands = relay.conn(0);
    relay.hold(Direction::ToClient);
    commands.let_go();
    let error = limited("subscribe", &waiting).await;
    // Busy is as true: the first answer has told who holds.
    if let Err(error) = error {
        assert_eq!((error.kind(), error.phase()), (ErrorKind::TimedOut, Some(Phase::Subscribe)), "{error}");
    }
    relay.let_go();

    let busy = limited("queue", &waiting).await.unwrap();
    assert!(busy.is_busy());

    relay.refuse();
    relay.cut();
    let error = limited("connect", &waiting).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::Unavailable), "{error}");
    relay.accept();
    drop(guard);
    let again = within("it is connected again", LONG, waiting.lock("a").unwrap().acquire()).await.unwrap();
    drop(again);
}

/// With a limit, an error with its cause; without one, patience, but no busy loop.
#[tokio::test]
async fn case_x45_a_server_that_is_down_is_no_silent_loop() {
    let server = Server::own().await;
    // The relay takes connections for a server that is gone: it counts the attempts.
    let relay = Relay::to(&server);
    let waiting = Client::builder(&relay.url()).prefix(server.prefix()).connect().await.unwrap();
    server.kill().await;
    relay.cut();
    let begun = Instant::now();
    let lock = waiting.lock("a").unwrap();
    let error = lock.acquire_within(Duration::from_secs(1)).await.unwrap_err();
    assert!(begun.elapsed() < LATE, "{:?}", begun.elapsed());
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut), "{error:?}");
    assert!(error.to_string().contains(waiting.address()), "{error}");
    println!("{error}");

    let before = relay.accepted();
    let (since, endless) = (Instant::now(), tokio::spawn(async move { lock.acquire().await.unwrap() }));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!endless.is_finished());
    let attempts = relay.accepted() - before;
    println!("{attempts} attempts to connect in {:?}", since.elapsed());
    assert!(attempts < 40, "a busy loop: {attempts} attempts in {:?}", since.elapsed());
    server.restart().await;
    let guard = within("the server is back", LONG, endless).await.unwrap();
    eventually("and asked", LONG, async || guard.confirm().await.is_ok()).await;
}

/// A server that answers at once, and refuses: no loop either.
#[tokio::test]
async fn case_x45_a_server_that_refuses_is_no_busy_loop() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let waiting = client(&server).await;
    drop(take(&waiting.lock("a").unwrap()).await);
    eye.nothing_left(LONG).await;
    // NOREPLICAS, for every script that would write.
    eye.admin.call(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let before = eye.stats().await;
    let lock = waiting.lock("a").unwrap();
    let error = lock.acquire_within(LIMIT).await.unwrap_err();
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("NOREPLICAS"), "{error}");
    let endless = tokio::spawn(async move { lock.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!endless.is_finished());
    let ran = eye.stats().await - before;
    println!("{} script calls in 2 s", ran.scripts());
    assert!(ran.scripts() < 60, "a busy loop: {ran:?}");
    eye.admin.call(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
    drop(within("the server serves again", LONG, endless).await.unwrap());
}
