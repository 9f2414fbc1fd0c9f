//! Servers as values, and tokens.

#[cfg(any(feature = "redis", feature = "issue"))]
pub(crate) mod redis;
pub(crate) mod server;
pub(crate) mod tokens;
