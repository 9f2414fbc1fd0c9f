//! Why a store did not do what it was asked.

use std::convert::Infallible;
use std::sync::Arc;

use crate::{Mark, Token, Verdict};

/// Why a store refused a token, or could not answer. `E` is the store's own error; the stores in memory
/// have none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError<E = Infallible> {
    /// A later holder has been at the store. This hold is over: stop, whatever the lock says.
    ///
    /// If the hold is known to be alive, the lock's server has lost its counter. Then raise the counter
    /// past `stored` and come back with a new token.
    #[error("stale token {ours}: the store has seen sequence {}", stored.sequence())]
    Stale {
        /// The token that was refused.
        ours: Token,
        /// What the store has for its resource.
        stored: Mark,
    },
    /// The store has this sequence from another holder. One number was given out twice, which proves
    /// that the issuer has lost state; that deserves an alarm. The cure is that of `Stale`.
    #[error(
        "duplicate token {ours}: another holder was given the same sequence, so the issuer has lost state"
    )]
    Duplicate {
        /// The token that was refused.
        ours: Token,
        /// What the store has for its resource.
        stored: Mark,
    },
    /// The store's mark is missing or lower than the claim it once confirmed: the store itself has lost
    /// a write (a crash, a fail-over). What was read under this claim is worth nothing; claim again and
    /// start anew.
    #[error("the store has forgotten the claim of token {ours}; what was read under it is void")]
    NoClaim {
        /// The token whose claim is gone.
        ours: Token,
    },
    /// The token is good, but for something else: a lock on `invoices` protects no `orders`.
    #[error("token {ours} does not guard {scope:?}")]
    WrongResource {
        /// The token that was refused.
        ours: Token,
        /// What the fence guards.
        scope: Arc<str>,
    },
    /// There is no row with this key, so there was nothing to compare with. (Row-level form only.)
    #[error("token {ours}: there is no such row")]
    NoSuchRow {
        /// The token that was not compared.
        ours: Token,
    },
    /// The resource's name is longer than the store can keep as a key.
    #[error("the resource's name is {length} bytes; this store keeps at most {limit}")]
    NameTooLong {
        /// Its length in bytes.
        length: usize,
        /// The store's limit in bytes.
        limit: usize,
    },
    /// The store failed. Whether it has taken the claim or the write is unknown; asking again with the
    /// same token is safe.
    #[error("the store failed: {0}")]
    Store(#[source] E),
}

impl<E> FenceError<E> {
    /// Turns a verdict on what the store has into an error, unless it accepts.
    ///
    /// For writers of their own [`FencedStore`](crate::FencedStore).
    ///
    /// # Errors
    ///
    /// [`Stale`](Self::Stale) and [`Duplicate`](Self::Duplicate), by the rule of [`Token::check`].
    pub fn unless_accepted(token: &Token, stored: Option<Mark>) -> Result<Verdict, Self> {
        let verdict = token.check(stored);
        match (verdict, stored) {
            (Verdict::Stale, Some(stored)) => Err(Self::Stale { ours: token.clone(), stored }),
            (Verdict::Duplicate, Some(stored)) => {
                alarm(token, stored);
                Err(Self::Duplicate { ours: token.clone(), stored })
            }
            (accepted, _) => Ok(accepted),
        }
    }

    /// As [`unless_accepted`](Self::unless_accepted), for a claim that the store has confirmed before:
    /// only its own mark will do.
    ///
    /// # Errors
    ///
    /// Those, and [`NoClaim`](Self::NoClaim) where the mark is missing or lower.
    pub fn unless_claimed(token: &Token, stored: Option<Mark>) -> Result<(), Self> {
        match Self::unless_accepted(token, stored)? {
            Verdict::Same => Ok(()),
            _ => Err(Self::NoClaim { ours: token.clone() }),
        }
    }

    /// Whether the store compared and said no: `Stale` or `Duplicate`.
    #[must_use]
    pub const fn is_refused(&self) -> bool {
        matches!(self, Self::Stale { .. } | Self::Duplicate { .. })
    }

    /// The mark that refused the token, if one did: what the counter must be raised past.
    #[must_use]
    pub const fn stored(&self) -> Option<Mark> {
        match self {
            Self::Stale { stored, .. } | Self::Duplicate { stored, .. } => Some(*stored),
            _ => None,
        }
    }

    /// The same error with another type for the store's own.
    pub fn map_store<F>(self, map: impl FnOnce(E) -> F) -> FenceError<F> {
        match self {
            Self::Stale { ours, stored } => FenceError::Stale { ours, stored },
            Self::Duplicate { ours, stored } => FenceError::Duplicate { ours, stored },
            Self::NoClaim { ours } => FenceError::NoClaim { ours },
            Self::WrongResource { ours, scope } => FenceError::WrongResource { ours, scope },
            Self::NoSuchRow { ours } => FenceError::NoSuchRow { ours },
            Self::NameTooLong { length, limit } => FenceError::NameTooLong { length, limit },
            Self::Store(error) => FenceError::Store(map(error)),
        }
    }
}

/// Said where the error is made, not where it is handled: a caller that drops the error must not be able
/// to hide that the issuer has lost state.
#[cfg(feature = "tracing")]
fn alarm(token: &Token, stored: Mark) {
    tracing::error!(
        resource = token.resource(),
        sequence = token.sequence(),
        stored = stored.sequence(),
        "duplicate fencing token: one sequence was issued to two holders"
    );
}

#[cfg(not(feature = "tracing"))]
fn alarm(_: &Token, _: Mark) {}
