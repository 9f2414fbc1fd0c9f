//! The lock and the store together: what the token is for.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up says so by panicking")]

mod counter;
mod outlived;
