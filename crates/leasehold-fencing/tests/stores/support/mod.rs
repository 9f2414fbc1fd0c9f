//! Servers as values, and tokens.

pub(crate) mod server;
pub(crate) mod tokens;
