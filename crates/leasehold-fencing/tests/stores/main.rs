//! Every store, on the real thing: `cargo test -p leasehold-fencing --all-features`.
//!
//! A database that is not installed is skipped, and the test says so; with `LEASEHOLD_REQUIRE_ALL` set
//! it fails instead.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up may say so by panicking")]

// Shared by the modules; which of it is used depends on the features.
#[allow(dead_code)]
mod support;

#[cfg(feature = "http")]
mod http;
#[cfg(feature = "issue")]
mod issue;
#[cfg(feature = "object-store")]
mod object;
#[cfg(feature = "redis")]
mod redis;
#[cfg(all(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod sql;
