//! What these tests share.

use std::time::Duration;

use leasehold::{Client, ClientBuilder, Lock};
use leasehold_testkit::{Relay, Server, eventually};

/// Far longer than anything here takes.
pub(crate) const SOON: Duration = Duration::from_secs(8);

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Options of a client that reaches the server through the relay.
pub(crate) fn through(relay: &Relay, server: &Server) -> ClientBuilder {
    Client::builder(&relay.url()).prefix(server.prefix())
}

pub(crate) async fn until_waiting(lock: &Lock, waiters: u64) {
    eventually("the waiters stand in the queue", SOON, async || {
        lock.inspect().await.unwrap().held().is_some_and(|hold| hold.waiters() == waiters)
    })
    .await;
}

/// Tries that fail meanwhile are the test's subject, not its end.
pub(crate) async fn until_taken(lock: &Lock) -> leasehold::Guard {
    let mut guard = None;
    eventually("it can be taken", SOON, async || {
        guard = lock.try_acquire().await.ok().and_then(leasehold::Attempt::acquired);
        guard.is_some()
    })
    .await;
    guard.unwrap()
}
