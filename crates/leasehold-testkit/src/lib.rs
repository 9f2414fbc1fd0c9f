//! A Redis or Valkey server as a value, and a relay that cuts and holds connections.
//!
//! ```no_run
//! # async fn show() {
//! use leasehold_testkit::{Relay, Server};
//!
//! let server = Server::start().await; // its own process, port and folder; gone when dropped
//! let mut admin = server.admin().await; // sees everything; the library under test does not
//! assert_eq!(admin.call(&["DBSIZE"]).await.int(), 0);
//!
//! let relay = Relay::to(&server); // give `relay.url()` to the library instead of `server.url()`
//! relay.cut();
//! # }
//! ```
//!
//! Where the server comes from is decided once for the whole test process and printed. The order, and how
//! to force it, are in [`source`].
//!
//! The library under test runs under a restricted user, limited to [`Server::prefix`] and to a list of
//! commands; only [`Server::admin`] may do everything. So a command that the documented ACL line forgets
//! fails in whichever test needs it.
//!
//! Failing to set up a test is a panic here, with a message that says what was missing. Methods named
//! `try_…` return the error instead.

mod admin;
mod builder;
mod error;
mod front;
mod keeper;
mod look;
mod patience;
mod port;
mod process;
mod relay;
mod reply;
mod server;
pub mod source;
mod tls;
mod user;
mod watchdog;

pub use admin::Admin;
pub use builder::{Builder, RULE};
pub use error::Error;
pub use look::{Stats, keys, stats};
pub use patience::{eventually, patience};
pub use relay::{Conn, Direction, Relay};
pub use reply::Reply;
pub use server::Server;
pub use source::say;
