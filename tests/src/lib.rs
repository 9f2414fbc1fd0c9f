//! Promises, proved on real servers: what the suites share.

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
    options(server).connect().await.expect("the client connects")
}

/// The guard of a lock that is free.
///
/// # Panics
///
/// When it is not free, or the server cannot be asked.
pub async fn take(lock: &Lock) -> Guard {
    match lock.try_acquire().await.expect("the server answers") {
        Attempt::Acquired(guard) => guard,
        Attempt::Busy(busy) => panic!("busy: {busy}"),
    }
}
