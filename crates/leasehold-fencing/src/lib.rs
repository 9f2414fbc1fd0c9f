//! Fencing tokens: numbers that only grow, and stores that check them.
//!
//! A lock can be lost without its holder knowing: the process slept, the network was cut, the server
//! lost its memory. A write that carries a [`Token`], checked by the store it goes to, is safe all the
//! same, because a store that has seen the next holder's token refuses the last one's.
//!
//! ```
//! use leasehold_fencing::{Mark, Token, Verdict};
//!
//! # fn main() -> Result<(), leasehold_fencing::MalformedToken> {
//! let first = Token::new("orders/42", 7, *b"the first holder")?;
//! let second = Token::new("orders/42", 8, *b"the other holder")?;
//!
//! let stored: Option<Mark> = None; // what the store last accepted for "orders/42"
//! assert_eq!(second.check(stored), Verdict::Newer);
//! let stored = Some(second.mark());
//! assert_eq!(second.check(stored), Verdict::Same, "several writes under one hold work");
//! assert_eq!(first.check(stored), Verdict::Stale, "the first holder woke up late");
//! # Ok(())
//! # }
//! ```
//!
//! The default features do no I/O and bring neither an async runtime nor a Redis client: a service that
//! only checks tokens needs nothing else.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod conformance;
mod environment;
mod gate;
mod holding;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "issue")]
mod issue;
mod malformed;
mod memory;
#[cfg(feature = "object-store")]
mod object;
#[cfg(feature = "redis")]
mod redis;
mod refused;
mod repair;
#[cfg(any(
    feature = "postgres",
    feature = "mysql",
    feature = "sqlite",
    feature = "redis",
    feature = "http",
    feature = "object-store"
))]
mod scope;
#[cfg(any(feature = "redis", feature = "issue"))]
mod script;
#[cfg(feature = "serde")]
mod serde;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod sql;
mod store;
mod text;
mod token;
mod verdict;

pub use conformance::{Violation, conformance};
pub use gate::{Gate, Passage};
pub use holding::Holding;
#[cfg(feature = "issue")]
pub use issue::{IssueError, Issuer};
pub use malformed::MalformedToken;
pub use memory::{Memory, MemoryClaim};
#[cfg(feature = "object-store")]
pub use object::{FencedObject, ObjectFence, content_of};
#[cfg(feature = "redis")]
pub use redis::{FencedCommand, RedisClaim, RedisFence};
pub use refused::FenceError;
pub use repair::{Reissue, RepairError, claim_repairing};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub use sql::{Dialect, FencedTx, Isolation, RowClaim, RowFence, RowUpdate, SqlClaim, SqlFence};
#[cfg(feature = "mysql")]
pub use sql::{MySqlFence, MySqlRowFence};
#[cfg(feature = "postgres")]
pub use sql::{PgFence, PgRowFence};
#[cfg(feature = "sqlite")]
pub use sql::{SqliteFence, SqliteRowFence};
pub use store::FencedStore;
pub use token::Token;
pub use verdict::{Mark, Verdict};

/// The README's code, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

/// Lua texts for scripts that issue tokens themselves.
pub mod lua {
    /// Issues one token: `INCR`, raised to the server's clock. Reads the locals `fence` (key), `now`
    /// (microseconds) and `fence_ttl` (milliseconds as text, `'0'` for plain numbering); leaves
    /// `token`, or `nil` and the error in `fault`. It is meant to be spliced into a script as it is.
    pub const ISSUE: &str = include_str!("issue.lua");
}
