//! What a store keeps, and what it says.

use std::fmt;

use crate::Token;

/// The last token that a store accepted for one resource, without the resource's name: the two columns
/// of a row.
///
/// Any 64-bit number is accepted here, above [`Token::MAX_SEQUENCE`] too: a corrupt mark must be read
/// to be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark {
    sequence: u64,
    holder: [u8; 16],
}

impl Mark {
    /// A mark as it was stored.
    #[must_use]
    pub const fn new(sequence: u64, holder: [u8; 16]) -> Self {
        Self { sequence, holder }
    }

    /// The highest sequence that the store accepted.
    #[must_use]
    pub const fn sequence(self) -> u64 {
        self.sequence
    }

    /// Whose it was.
    #[must_use]
    pub const fn holder(self) -> [u8; 16] {
        self.holder
    }
}

impl From<&Token> for Mark {
    fn from(token: &Token) -> Self {
        token.mark()
    }
}

impl From<(u64, [u8; 16])> for Mark {
    fn from((sequence, holder): (u64, [u8; 16])) -> Self {
        Self::new(sequence, holder)
    }
}

/// What a store thinks of a token, by the one rule of [`Token::check`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Above everything seen: record it, then accept.
    Newer,
    /// The token that was recorded last: accept. A holder may write many times.
    Same,
    /// The recorded number under another holder: refuse. One number was given to two holders, so the
    /// issuer has lost state; that is worth an alarm.
    Duplicate,
    /// A later holder has been here: refuse.
    Stale,
}

impl Verdict {
    /// Whether the write may go on.
    #[must_use]
    pub const fn is_accepted(self) -> bool {
        matches!(self, Self::Newer | Self::Same)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Newer => "newer",
            Self::Same => "same",
            Self::Duplicate => "duplicate",
            Self::Stale => "stale",
        })
    }
}
