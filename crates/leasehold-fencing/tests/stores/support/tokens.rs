//! Tokens and names for tests.

use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_fencing::Token;

pub(crate) fn token(resource: &str, sequence: u64, holder: u8) -> Token {
    Token::new(resource, sequence, [holder; 16]).unwrap()
}

/// A name that no other test of this run has: they share a server.
pub(crate) fn fresh(stem: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{stem}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
