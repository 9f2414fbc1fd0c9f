//! After `close_within` there is no subscription, no connection and no task.

use std::time::Duration;

use leasehold::{ErrorKind, LostReason};
use leasehold_testkit::{Server, eventually};
use leasehold_tests::eye::Eye;
use leasehold_tests::{client, take};
use tokio::runtime::Handle;

use crate::{Cut, SOON, poll_up_to, tasks_are};

#[tokio::test]
async fn must_3_after_close_no_subscription_no_connection_and_no_task() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let other = client(&server).await;
    let elsewhere = take(&other.lock("b").unwrap()).await;
    let (tasks, connections) = (Handle::current().metrics().num_alive_tasks(), eye.connections().await.len());
    for _ in 0..3 {
        let closing = client(&server).await;
        let guard = take(&closing.lock("a").unwrap()).await;
        // Waiters, and what dropped ones have left on the way.
        let mut waiters = tokio::task::JoinSet::new();
        for name in ["a", "b", "b"] {
            let lock = closing.lock(name).unwrap();
            waiters.spawn(async move { lock.acquire().await.map(drop).unwrap_err() });
        }
        eye.queue_is("a", 1).await;
        eye.queue_is("b", 2).await;
        for polls in 1..5 {
            let lock = closing.lock("b").unwrap();
            // Once it is queued there are no more polls.
            let waits = poll_up_to(polls, Cut::AtOnce, lock.acquire());
            let ended = tokio::time::timeout(Duration::from_millis(50), waits).await;
            assert!(!matches!(ended, Ok(Some(_))), "{polls}");
        }
        assert!(!eye.channels().await.is_empty());
        closing.close_within(SOON).await;
        // Its socket is closed; the server sees that when it next looks.
        eventually("its channel is gone", SOON, async || eye.channels().await.is_empty()).await;
        eventually("its connections are closed", SOON, async || eye.connections().await.len() == connections)
            .await;
        for error in waiters.join_all().await {
            assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        }
        assert_eq!(guard.lost().await, LostReason::Closed);
        assert_eq!(eye.queued("b").await, 0, "its waiters have left");
        assert_eq!(eye.holder("a").await, None, "its holds are released");
        tasks_are(tasks).await;
        let error = closing.lock("a").unwrap().acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        drop(guard);
    }
    assert!(elsewhere.is_held());
}

/// Waiters that were served and waiters that gave up leave no channel of their own: the client's one
/// channel is all there ever is, and it goes with the client.
#[tokio::test]
async fn case_p5_no_channel_is_left_of_waits_that_are_over() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (other, closing) = (client(&server).await, client(&server).await);
    for round in 0..3 {
        let mut guards = Vec::new();
        let mut waiters = Vec::new();
        for n in 0..20 {
            let name = format!("{round}-{n}");
            guards.push(take(&other.lock(&name).unwrap()).await);
            let lock = closing.lock(&name).unwrap();
            waiters.push(tokio::spawn(async move { lock.acquire().await.map(drop) }));
            eye.queue_is(&name, 1).await;
        }
        for (n, waiter) in waiters.into_iter().enumerate() {
            if n % 2 == 0 {
                drop(guards.remove(0));
                waiter.await.unwrap().unwrap();
            } else {
                waiter.abort();
                assert!(waiter.await.unwrap_err().is_cancelled());
                drop(guards.remove(0));
            }
        }
        assert_eq!(eye.channels().await.len(), 1, "one channel, whatever was waited for");
    }
    closing.close_within(SOON).await;
    // Its socket is closed; the server sees that when it next looks.
    eventually("its channel is gone", SOON, async || eye.channels().await.is_empty()).await;
}

/// The last handle is dropped instead: the same, without anybody waiting for it.
#[tokio::test]
async fn must_3_after_the_last_drop_no_subscription_no_connection_and_no_task() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let other = client(&server).await;
    let elsewhere = take(&other.lock("b").unwrap()).await;
    let (tasks, connections) = (Handle::current().metrics().num_alive_tasks(), eye.connections().await.len());
    let dropped = client(&server).await;
    let guard = take(&dropped.lock("a").unwrap()).await;
    let lock = dropped.lock("b").unwrap();
    let waiter = tokio::spawn(async move { lock.acquire().await.map(drop) });
    eye.queue_is("b", 1).await;
    waiter.abort();
    drop((guard, dropped));
    assert!(waiter.await.unwrap_err().is_cancelled());
    tasks_are(tasks).await;
    eventually("its connections are closed", SOON, async || eye.connections().await.len() == connections)
        .await;
    // Its socket is closed; the server sees that when it next looks.
    eventually("its channel is gone", SOON, async || eye.channels().await.is_empty()).await;
    assert_eq!(eye.queued("b").await, 0);
    assert_eq!(eye.holder("a").await, None);
    drop(elsewhere);
}
