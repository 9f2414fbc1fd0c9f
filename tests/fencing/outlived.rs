//! The client's side: what is over is not sent, and not waited for.

use std::time::{Duration, Instant};

use http::HeaderMap;
use leasehold::LostReason;
use leasehold_fencing::http::{FENCE_TOKEN, attach};
use leasehold_testkit::Server;
use leasehold_tests::{client, take};

#[tokio::test]
async fn a_request_carries_the_token_until_the_hold_is_over_and_is_not_sent_after() {
    let server = Server::start().await;
    let client = client(&server).await;
    let guard = take(&client.lock("outlived").unwrap().fixed(Duration::from_millis(300)).unwrap()).await;
    let mut headers = HeaderMap::new();
    attach(&guard, &mut headers).unwrap();
    assert_eq!(headers[FENCE_TOKEN].to_str().unwrap(), guard.token().to_string());
    guard.lost().await;
    let mut headers = HeaderMap::new();
    assert_eq!(attach(&guard, &mut headers).unwrap_err().token, guard.token());
    assert!(headers.is_empty());
}

#[tokio::test]
async fn a_statement_is_waited_for_as_long_as_the_hold_lasts_and_no_longer() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("statement").unwrap();
    let guard = take(&lock.clone().fixed(Duration::from_millis(400)).unwrap()).await;
    assert_eq!(guard.timeout(async { 7 }).await, Ok(7));
    let started = Instant::now();
    let cut = guard.timeout(std::future::pending::<()>()).await;
    assert_eq!(cut, Err(LostReason::Expired));
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(guard.timeout(async { 7 }).await, Err(LostReason::Expired), "not even polled");

    // A renewed hold outlives its lease, and the statement with it.
    let guard = lock.renewed(Duration::from_millis(300)).unwrap().acquire().await.unwrap();
    let work = tokio::time::sleep(Duration::from_millis(900));
    assert_eq!(guard.timeout(work).await, Ok(()));
}
