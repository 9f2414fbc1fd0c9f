//! CASES X7 and X8: a release that is cancelled, or whose connection breaks, is not forgotten.

use std::time::Duration;

use leasehold::{ErrorKind, Outcome};
use leasehold_testkit::{Direction, Server, eventually};
use leasehold_tests::eye::Eye;
use leasehold_tests::take;

use crate::{SOON, relayed};

/// The guard went with the future; the key goes too, and the owner is of no further use.
#[tokio::test]
async fn case_x7_a_cancelled_release_is_finished_in_the_background() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (relay, client) = relayed(&server, Duration::from_secs(1)).await;
    let lock = client.lock("a").unwrap();
    for direction in [Direction::ToServer, Direction::ToClient] {
        let guard = take(&lock).await;
        let (owner, held) = (guard.owner(), guard.held());
        relay.hold(direction);
        let cancelled = tokio::time::timeout(Duration::from_millis(100), guard.release()).await;
        assert!(cancelled.is_err(), "{direction:?}");
        assert!(!held.is_held());
        // "Call it again": there is nothing left to call it on.
        let error = lock.acquire_as(&owner).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        relay.let_go();
        eye.nothing_left(SOON).await;
        assert_eq!(held.state(), leasehold::HoldState::Released);
    }
}

/// The connection breaks with the request on it: tried again, and released.
#[tokio::test]
async fn case_x8_a_release_whose_request_is_lost_is_tried_again() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (relay, client) = relayed(&server, Duration::from_secs(1)).await;
    let guard = take(&client.lock("a").unwrap()).await;
    relay.hold(Direction::ToServer);
    let release = tokio::spawn(guard.release());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(eye.holder("a").await.is_some());
    relay.cut();
    relay.let_go();
    assert_eq!(release.await.unwrap().unwrap(), Outcome::Released);
    assert_eq!(eye.holder("a").await, None);
}

/// The server released, and its answer is lost: whatever is found then, it is no loss.
#[tokio::test]
async fn case_x8_a_release_whose_reply_is_lost_is_never_called_a_loss() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (relay, client) = relayed(&server, Duration::from_secs(1)).await;
    let other = leasehold_tests::client(&server).await;
    // The server must know the script: its text goes out only after an answer.
    let _ = take(&client.lock("a").unwrap()).await.release().await.unwrap();
    for next in [false, true] {
        let guard = take(&client.lock("a").unwrap()).await;
        let held = guard.held();
        relay.hold(Direction::ToClient);
        let release = tokio::spawn(guard.release());
        eventually("released", SOON, async || eye.holder("a").await.is_none()).await;
        let somebody = if next { Some(take(&other.lock("a").unwrap()).await) } else { None };
        relay.cut();
        relay.let_go();
        let outcome = release.await.unwrap().unwrap();
        assert!(matches!(outcome, Outcome::Released | Outcome::Unknown), "{outcome:?}");
        assert!(!held.state().is_lost());
        if let Some(somebody) = somebody {
            assert!(somebody.confirm().await.is_ok(), "somebody else's is untouched");
        }
        eye.nothing_left(SOON).await;
    }
}
