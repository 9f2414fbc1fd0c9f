//! The server goes, and comes back with nothing.

use std::time::Duration;

use leasehold::{Client, LostReason, Outcome};
use leasehold_testkit::{Relay, Server};
use leasehold_tests::eye::Eye;
use leasehold_tests::{client, take};
use tokio::task::JoinSet;

use crate::{LONG, line_up, within};

/// Three waiters of each of three clients, in turn; the queue is lost with the server, and stands
/// again by their tickets, whoever comes back first.
#[tokio::test]
async fn a_restart_loses_the_queue_and_the_order_is_rebuilt_from_tickets() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    // Only the waiters come through it: somebody else can be there before them.
    let relay = Relay::to(&server);
    let first = client(&server).await;
    let lease = Duration::from_secs(2);
    let held = take(&first.lock("a").unwrap().renewed(lease).unwrap()).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(Client::builder(&relay.url()).prefix(server.prefix()).connect().await.unwrap());
    }
    let mut waiters = Vec::new();
    for n in 0..9 {
        // A long lease: a busy machine must not lose what is held here.
        let lock = clients[n % 3].lock("a").unwrap();
        waiters.push(line_up(&mut eye, "a", &lock, n + 1).await);
    }
    relay.refuse();
    relay.cut();
    server.restart().await;
    let mut eye = Eye::on(&server).await;
    assert_eq!(eye.queued("a").await, 0, "the server has lost everything");
    let lost = within("the holder is told", LONG, held.lost()).await;
    assert!(matches!(lost, LostReason::Gone | LostReason::Unreachable), "{lost}");
    let second = client(&server).await;
    let between = take(&second.lock("a").unwrap()).await;
    assert!(between.token().sequence() > held.token().sequence(), "the counter was lost, and is above");
    relay.accept();
    eye.queue_is("a", 9).await;
    let mut before = between.token().sequence();
    assert_eq!(between.release().await.unwrap(), Outcome::Released);
    for (n, waiter) in waiters.into_iter().enumerate() {
        let guard = within("the next in the queue", LONG, waiter).await.unwrap();
        assert!(guard.token().sequence() > before, "{n} is served out of turn");
        before = guard.token().sequence();
        let _ = guard.release().await.unwrap();
    }
    eye.nothing_left(LONG).await;
}

/// Waiters of many locks, none of them held any more: everybody is served, whatever was lost.
#[tokio::test]
async fn a_restart_with_waiters_of_many_locks_serves_them_all() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (one, two) = (client(&server).await, client(&server).await);
    let mut held = Vec::new();
    let mut waiters = Vec::new();
    for n in 0..50 {
        let name = format!("a{n}");
        held.push(take(&one.lock(&name).unwrap()).await);
        for place in 1..=2 {
            let lock = two.lock(&name).unwrap();
            waiters.push(line_up(&mut eye, &name, &lock, place).await);
        }
    }
    server.restart().await;
    // Their checks are due in 30 s; the reconnect brings them at once. Two for one lock, one after
    // the other.
    for waiter in waiters {
        let guard = within("everybody is served", LONG, waiter).await.unwrap();
        let _ = guard.release().await.unwrap();
    }
    for guard in held {
        let lost = within("every holder is told", LONG, guard.lost()).await;
        assert!(matches!(lost, LostReason::Gone | LostReason::Taken), "{lost}");
    }
    Eye::on(&server).await.nothing_left(LONG).await;
}

/// The server stands still for longer than every lease and time-out, with everything connected. What
/// was promised is over for everyone: whoever looks first is served first, and then everyone.
#[tokio::test]
async fn a_server_that_stood_still_serves_everybody() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let lease = Duration::from_secs(1);
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(client(&server).await);
    }
    let lock = |n: usize| clients[n % 3].lock("a").unwrap().renewed(lease).unwrap();
    let held = take(&lock(0)).await;
    let mut waiters = JoinSet::new();
    for n in 1..=6 {
        let lock = lock(n);
        waiters.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            (guard.token().sequence(), n, guard.release().await.unwrap())
        });
        eye.queue_is("a", n).await;
    }
    server.pause().await;
    let lost = within("the holder is told", LONG, held.lost()).await;
    assert_eq!(lost, LostReason::Unreachable);
    tokio::time::sleep(lease * 3).await;
    assert!(waiters.try_join_next().is_none());
    server.resume().await;
    let served = within("everybody is served", LONG, waiters.join_all()).await;
    println!("{served:?}");
    assert!(served.iter().all(|(token, ..)| *token > held.token().sequence()));
    assert!(served.iter().all(|(.., outcome)| *outcome == Outcome::Released), "{served:?}");
    eye.nothing_left(LONG).await;
}
