//! The answer to a try: acquired, or busy. Neither is an error.

use crate::busy::Busy;
use crate::guard::Guard;

/// The answer to a try.
#[derive(Debug)]
#[must_use = "a guard that is dropped releases the lock at once"]
pub enum Attempt {
    /// The lock is held until the guard is released or dropped, or the hold is lost.
    Acquired(Guard),
    /// Somebody else has it.
    Busy(Busy),
}

impl Attempt {
    /// The guard, if there is one.
    #[must_use]
    pub fn acquired(self) -> Option<Guard> {
        match self {
            Self::Acquired(guard) => Some(guard),
            Self::Busy(_) => None,
        }
    }

    /// Whether somebody else has the lock.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy(_))
    }
}
