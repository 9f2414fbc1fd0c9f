//! CASES X1 to X5: the request arrives, the reply does not, and nobody waits for it any more.

use std::time::Duration;

use leasehold::{Client, ErrorKind, Lock, Outcome};
use leasehold_testkit::{Direction, Server, eventually};
use leasehold_tests::eye::Eye;
use leasehold_tests::{client, take};

use crate::{SOON, relayed};

/// The proxy's delay in the case.
const HELD: Duration = Duration::from_millis(400);

/// When the caller gives up.
const UP: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
enum Way {
    Drop,
    Timeout,
    Select,
    Abort,
}

/// Gives up on an acquisition after `UP`.
async fn give_up(way: Way, lock: &Lock) {
    match way {
        Way::Drop => {
            let mut acquire = Box::pin(lock.acquire());
            let polled = tokio::time::timeout(UP, acquire.as_mut()).await;
            drop(acquire);
            assert!(polled.is_err(), "the reply is held");
        }
        Way::Timeout => {
            assert!(tokio::time::timeout(UP, lock.try_acquire()).await.is_err(), "the reply is held");
        }
        Way::Select => tokio::select! {
            attempt = lock.acquire_within(SOON) => panic!("the reply is held: {attempt:?}"),
            () = tokio::time::sleep(UP) => {}
        },
        Way::Abort => {
            let lock = lock.clone();
            let task = tokio::spawn(async move { lock.acquire().await });
            tokio::time::sleep(UP).await;
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
    }
}

async fn given_up(direction: Direction, ways: &[Way]) {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (relay, waiting) = relayed(&server, Duration::from_secs(1)).await;
    drop(take(&waiting.lock("warm").unwrap()).await);
    eye.nothing_left(SOON).await;
    for way in ways {
        let lock = waiting.lock("a").unwrap();
        let before = eye.stats().await.of("incr");
        relay.hold(direction);
        let release = tokio::time::sleep(HELD);
        give_up(*way, &lock).await;
        if direction == Direction::ToClient {
            assert_eq!(eye.stats().await.of("incr"), before + 1, "{way:?}: the server had taken it");
            // The undo does not wait for the reply.
            eventually("the key is gone while the reply is held", SOON, async || {
                eye.holder("a").await.is_none()
            })
            .await;
        }
        release.await;
        relay.let_go();
        eye.nothing_left(SOON).await;
        // The request that came late was served before its undo, or never.
        assert!(eye.stats().await.of("incr") <= before + 1, "{way:?}: taken more than once");
        let guard = take(&lock).await;
        assert_eq!(guard.release().await.unwrap(), Outcome::Released, "{way:?}");
    }
}

#[tokio::test]
async fn case_x1_dropped_while_the_reply_is_held() {
    given_up(Direction::ToClient, &[Way::Drop]).await;
}

#[tokio::test]
async fn case_x2_timeout_select_and_abort_while_the_reply_is_held() {
    given_up(Direction::ToClient, &[Way::Timeout, Way::Select, Way::Abort]).await;
}

/// The same with the request still on its way: it arrives when nobody wants it any more.
#[tokio::test]
async fn case_x1_case_x2_dropped_while_the_request_is_held() {
    given_up(Direction::ToServer, &[Way::Drop, Way::Timeout, Way::Select, Way::Abort]).await;
}

/// Cancelled in the release, and in the acquire, with the caller's own deadline long over: the
/// clean-up has its own.
#[tokio::test]
async fn case_x3_case_x4_the_clean_up_has_its_own_deadline() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (relay, waiting) = relayed(&server, Duration::from_millis(200)).await;
    let lock = waiting.lock("a").unwrap();
    let guard = take(&lock).await;
    // Longer than all tries of a command together: the first transmissions of the undo are lost too.
    relay.hold(Direction::ToServer);
    assert!(tokio::time::timeout(UP, guard.release()).await.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    relay.cut();
    relay.let_go();
    eye.nothing_left(SOON).await;

    let _ = take(&lock).await.release().await.unwrap();
    relay.hold(Direction::ToClient);
    let error = lock.acquire_within(UP).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    relay.cut();
    relay.let_go();
    eye.nothing_left(SOON).await;
}

/// The server took the lock, the client heard nothing: the error says that it does not know, the
/// hold is undone, and whoever came next is left alone.
#[tokio::test]
async fn case_x5_a_timed_out_acquire_is_unknown_and_undone() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let other: Client = client(&server).await;
    let (relay, waiting) = relayed(&server, Duration::from_millis(300)).await;
    drop(take(&waiting.lock("warm").unwrap()).await);
    eye.nothing_left(SOON).await;
    // This connection only: it is given up as silent, and the undo goes over the next one.
    relay.conn(0).hold(Direction::ToClient);
    let error = waiting.lock("a").unwrap().try_acquire().await.unwrap_err();
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(error.may_have_changed_server(), "{error}");
    assert!(error.to_string().contains("may have changed"), "{error}");
    eventually("its own hold is undone", SOON, async || eye.holder("a").await.is_none()).await;
    // Late replies, and the undo sent again and again: none of it touches this.
    let guard = take(&other.lock("a").unwrap()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    relay.let_go();
    let _ = take(&waiting.lock("b").unwrap()).await.release().await.unwrap();
    assert_eq!(eye.holder("a").await, Some(guard.owner_id()));
    assert!(guard.confirm().await.is_ok());
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    eye.nothing_left(SOON).await;
}
