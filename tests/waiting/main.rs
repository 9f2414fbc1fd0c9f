//! Waiting: who is served, when, in which order, and what that costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says by a panic what went wrong")]

mod dead;
mod deadline;
mod fifo;
mod handover;
mod idle;
mod outage;
mod push;
mod races;

use std::time::Duration;

use leasehold::{Guard, Lock};
use leasehold_testkit::patience;
use leasehold_tests::eye::Eye;
use tokio::task::JoinHandle;

/// Far above what anything takes here; below it only a lost wake-up, or none at all, is slow.
const LONG: Duration = Duration::from_secs(20);

/// What comes within `bound`.
async fn within<T>(what: &str, bound: Duration, job: impl Future<Output = T>) -> T {
    match tokio::time::timeout(patience(bound), job).await {
        Ok(done) => done,
        Err(late) => panic!("not within {bound:?}: {what} ({late})"),
    }
}

/// Waits for `lock` in a task of its own, and returns when it is the queue's `place`th.
async fn line_up(eye: &mut Eye, name: &str, lock: &Lock, place: usize) -> JoinHandle<Guard> {
    let lock = lock.clone();
    let waiter = tokio::spawn(async move { lock.acquire().await.unwrap() });
    eye.queue_is(name, place).await;
    waiter
}

/// See [`leasehold_tests::child`].
#[test]
fn child_process() {
    leasehold_tests::child::play();
}
