//! Free ports and fresh words.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

/// Sixteen hex digits that nobody guesses by accident: passwords and names.
pub(crate) fn fresh_word() -> String {
    format!("{:016x}", fresh_number())
}

fn fresh_number() -> u64 {
    // Each `RandomState` has other keys, so hashing a constant gives another number each time.
    RandomState::new().hash_one(0)
}

/// A port that was free a moment ago. Whoever binds it must be ready to lose the race and ask again.
///
/// It lies below the range that Linux and macOS hand out to outgoing connections, so that a server which
/// comes back on its port, or a relay that refuses for a while, does not find it taken by a client.
pub(crate) fn free() -> u16 {
    const LOWEST: u16 = 12_000;
    const COUNT: u64 = 20_000;
    loop {
        let offset = u16::try_from(fresh_number() % COUNT).unwrap_or(0);
        let port = LOWEST + offset;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
