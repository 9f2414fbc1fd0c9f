//! Promises, proved on real servers: what the suites share.
#![allow(clippy::expect_used, reason = "a test that cannot set itself up says so by panicking")]

pub mod child;
pub mod eye;

use leasehold::{Attempt, Client, ClientBuilder, Guard, Lock};
use leasehold_testkit::Server;

/// Options of a client of `server`, as its restricted user and behind that user's prefix.
pub fn options(server: &Server) -> ClientBuilder {
    Client::builder(&server.url()).prefix(server.prefix())
}

/// A client of `server`.
///
/// # Panics
///
/// When it cannot connect.
pub async fn client(server: &Server) -> Client {
    options(server).connect().await.unwrap_or_else(|error| panic!("{error}"))
}

/// The guard of a lock that is free.
///
/// # Panics
///
/// When it is not free, or the server cannot be asked.
pub async fn take(lock: &Lock) -> Guard {
    match lock.try_acquire().await.unwrap_or_else(|error| panic!("{error}")) {
        Attempt::Acquired(guard) => guard,
        Attempt::Busy(busy) => panic!("busy: {busy}"),
    }
}
