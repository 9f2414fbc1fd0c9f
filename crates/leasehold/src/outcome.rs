//! How a hold stands and how it ends.

use std::fmt;
use std::time::Duration;

/// Why a hold ended before its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// Its time was over: a fixed lease ran out, or the process slept past a renewed one's end.
    Expired,
    /// Its time was over while renewals failed: the server could not be reached in time.
    Unreachable,
    /// Somebody else holds the lock, or a push said that it was released by force.
    Taken,
    /// The record is gone: deleted by others, evicted, lost by the server; or released by force, where
    /// only the next renewal tells.
    Gone,
    /// The lock's `max_hold` was reached.
    MaxHold,
    /// The client was closed.
    Closed,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the lease expired",
            Self::Unreachable => "the lease ended while the server could not be reached",
            Self::Taken => "the lock was taken, or released by force",
            Self::Gone => "the lock's record is gone from the server",
            Self::MaxHold => "the longest time that this lock may be held is over",
            Self::Closed => "the client was closed",
        })
    }
}

impl std::error::Error for LostReason {}

/// How safe a hold is. Loss is a slope that the holder sees coming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// The last renewal went well, or none was due yet.
    Safe,
    /// A renewal failed and is being retried. Start nothing new.
    AtRisk {
        /// What remains until the hold counts as lost, when this state was entered.
        remaining: Duration,
    },
    /// Over, for ever, even if a late renewal should succeed.
    Lost(LostReason),
    /// Over by its release.
    Released,
}

impl HoldState {
    /// Whether a renewal failed and time remains.
    #[must_use]
    pub fn is_at_risk(&self) -> bool {
        matches!(self, Self::AtRisk { .. })
    }

    /// Whether the hold is over.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost(_))
    }
}

/// How a release ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[must_use = "`Lost` means that the protected work may have overlapped with somebody else's"]
pub enum Outcome {
    /// The lock was held until now and is free, or somebody else's turn.
    Released,
    /// The hold was over before: the protected work may have overlapped with another holder's.
    Lost(LostReason),
    /// The server's answer never came. The lock may still be taken; its lease ends it, and the
    /// release goes on being tried in the background until then.
    Unknown,
    /// This was one of several guards of one hold (re-entry): the others keep it.
    StillHeld,
}
