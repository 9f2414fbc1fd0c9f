//! Owner ids: fresh for every acquisition, good for one hold.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

/// `<client uuid>:<counter>`. Never a thread or a task: a hold belongs to whoever has the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OwnerId {
    pub(crate) client: Uuid,
    pub(crate) count: u64,
}

impl OwnerId {
    /// The sixteen bytes that a token carries: the client's uuid with the counter added to its low
    /// half, modulo 2^64. Two owners of one client differ, and a store needs no text column.
    pub(crate) fn holder(self) -> [u8; 16] {
        let (high, low) = self.client.as_u64_pair();
        Uuid::from_u64_pair(high, low.wrapping_add(self.count)).into_bytes()
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client, self.count)
    }
}

/// The text is not one of this library's owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an owner id")]
pub(crate) struct NotAnOwner;

impl FromStr for OwnerId {
    type Err = NotAnOwner;

    fn from_str(text: &str) -> Result<Self, NotAnOwner> {
        let (client, count) = text.split_once(':').ok_or(NotAnOwner)?;
        Ok(Self {
            client: Uuid::try_parse(client).map_err(|_| NotAnOwner)?,
            count: count.parse().map_err(|_| NotAnOwner)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_one_client_have_different_holders() {
        let client = Uuid::from_u64_pair(7, u64::MAX);
        let a = OwnerId { client, count: 0 };
        let b = OwnerId { client, count: 1 };
        assert_ne!(a.holder(), b.holder());
        assert_eq!(b.holder()[8..], [0; 8], "the low half wraps");
        assert_eq!(a.to_string().parse(), Ok(a));
        for bad in ["", ":", "x:1", "0b1c7e6e-0000-4000-8000-000000000001:", "1"] {
            assert_eq!(bad.parse::<OwnerId>(), Err(NotAnOwner), "{bad}");
        }
    }
}
