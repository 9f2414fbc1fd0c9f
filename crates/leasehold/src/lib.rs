//! Distributed locks on Redis and Valkey: leases that are renewed while the work lasts, waiting by
//! push instead of polling, first come first served, a loss that is told before anybody else can
//! hold the lock, and fencing tokens that a data store checks.
//!
//! ```no_run
//! # async fn write_report(_: leasehold::Token) -> Result<(), Box<dyn std::error::Error>> { Ok(()) }
//! use leasehold::{Attempt, Client, Outcome};
//!
//! # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("redis://127.0.0.1").await?;
//! let lock = client.lock("lock:daily-report")?;
//!
//! // One replica runs the report, the others skip. The lease is renewed while the guard lives.
//! let Attempt::Acquired(guard) = lock.try_acquire().await? else {
//!     return Ok(()); // Attempt::Busy(busy) says who, since when, how long still
//! };
//! write_report(guard.token()).await?;
//! if let Outcome::Lost(reason) = guard.release().await? {
//!     return Err(reason.into()); // the work may have overlapped with somebody else's
//! }
//! # Ok(()) }
//! ```
//!
//! Work that must not outlive its lock goes through [`Lock::run`]: it is dropped when the lock is
//! lost. Work that cannot be dropped watches [`Held::lost`], [`Held::states`] or
//! [`Held::cancellation_token`]. And every write that matters carries [`Held::token`] to a store that
//! refuses smaller ones: a lock on Redis alone cannot promise that two holders never overlap. What it
//! promises, and under which assumptions, is in `docs/guarantees.md`.
//!
//! # The source, in reading order
//!
//! [`Client`] and [`Lock`] are the face. `hold/` is the life of one hold, a file for each thing that
//! happens to it, in order. `lease/` decides, without clock or I/O, when a lease must be renewed and
//! when it is over. `server/` is the only place that talks to the server, behind one seam, with the
//! Lua scripts beside it.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod attempt;
mod builder;
mod busy;
mod client;
mod error;
mod guard;
mod holding;
mod inspect;
mod lock;
mod outcome;
mod run;

mod hold;
mod lease;
mod server;

mod backoff;
mod clock;
mod key;
mod options;
mod owner;
mod who;

pub use attempt::Attempt;
pub use builder::ClientBuilder;
pub use busy::{Busy, ClientHolder, Holder, Remaining};
pub use client::Client;
pub use error::{Error, ErrorKind, Phase};
pub use guard::{Guard, Held, Owner};
pub use inspect::{Evicted, Seen, SeenForeign, SeenHold};
pub use leasehold_fencing::Token;
pub use lock::Lock;
pub use outcome::{HoldState, LostReason, Outcome};
pub use run::Done;

/// The README's and the guide's code, compiled.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    mod readme {}

    #[doc = include_str!("../../../docs/guide.md")]
    mod guide {}
}
