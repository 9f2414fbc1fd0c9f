//! One function that finds the usual mistakes in a store.

mod join;
#[cfg(test)]
mod mutants;
mod rules;

use std::fmt::Debug;

use crate::{FenceError, FencedStore, Token};

/// A rule that a store has broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {detail}")]
pub struct Violation {
    rule: &'static str,
    detail: String,
}

impl Violation {
    /// The rule, in words.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        self.rule
    }
}

/// Checks that a store follows the three rules of [`FencedStore`].
///
/// It writes to resources named `<prefix>/…`; give each run its own prefix, for marks are never taken
/// back. It needs no runtime of its own, and awaits what the store awaits. Some rules are about claims
/// and writes at the same time, so a store that is served by a pool wants at least four connections.
///
/// What it cannot see: whether the mark survives a crash of the store, and whether compare and write are
/// really one step where the store never lets two of them meet.
///
/// ```
/// # use leasehold_fencing::{Memory, Violation, conformance};
/// # async fn check() -> Result<(), Violation> {
/// let store: Memory<Vec<u8>> = Memory::new();
/// conformance(&store, "run-1").await
/// # }
/// ```
///
/// # Errors
///
/// The first [`Violation`] found; an error of the store itself is one.
pub async fn conformance<S: FencedStore>(store: &S, prefix: &str) -> Result<(), Violation> {
    let run = Run { store, prefix };
    rules::one_holder(&run).await?;
    rules::succession(&run).await?;
    rules::claim_before_read(&run).await?;
    rules::duplicates(&run).await?;
    rules::numbers(&run).await?;
    rules::names(&run).await?;
    rules::holders(&run).await?;
    rules::concurrent_claims(&run).await?;
    rules::lost_updates(&run).await
}

/// A store under test, and the words the rules are written in.
struct Run<'a, S> {
    store: &'a S,
    prefix: &'a str,
}

impl<S: FencedStore> Run<'_, S> {
    fn token(&self, resource: &str, sequence: u64, holder: u8) -> Result<Token, Violation> {
        Token::new(format!("{}/{resource}", self.prefix), sequence, [holder; 16])
            .map_err(|error| violation("tokens of the check", &error))
    }

    async fn claim(&self, rule: &'static str, token: &Token) -> Result<S::Claim, Violation> {
        let claimed = self.store.claim(token).await;
        claimed.map_err(|error| violation(rule, &format!("claim of {token} failed: {error}")))
    }

    async fn read(&self, rule: &'static str, claim: &S::Claim) -> Result<Option<Vec<u8>>, Violation> {
        self.store.read(claim).await.map_err(|error| violation(rule, &format!("read failed: {error}")))
    }

    async fn write(&self, rule: &'static str, claim: &S::Claim, value: &[u8]) -> Result<(), Violation> {
        let written = self.store.write(claim, value).await;
        written.map_err(|error| violation(rule, &format!("write failed: {error}")))
    }

    async fn expect(&self, rule: &'static str, claim: &S::Claim, value: &[u8]) -> Result<(), Violation> {
        let read = self.read(rule, claim).await?;
        if read.as_deref() == Some(value) {
            return Ok(());
        }
        Err(violation(rule, &format!("read {read:?} instead of {value:?}")))
    }
}

fn violation(rule: &'static str, detail: &(impl std::fmt::Display + ?Sized)) -> Violation {
    Violation { rule, detail: detail.to_string() }
}

/// The call must have been refused as stale by a mark with this sequence.
fn stale<T, E: std::error::Error>(
    rule: &'static str,
    outcome: Result<T, FenceError<E>>,
    sequence: u64,
) -> Result<(), Violation> {
    match outcome {
        Err(FenceError::Stale { stored, .. }) if stored.sequence() == sequence => Ok(()),
        Err(other) => Err(violation(rule, &format!("not stale by {sequence}: {other}"))),
        Ok(_) => Err(violation(rule, &format!("accepted, though the mark is {sequence}"))),
    }
}

/// The call must have been refused as a duplicate.
fn duplicate<T, E: std::error::Error>(
    rule: &'static str,
    outcome: Result<T, FenceError<E>>,
) -> Result<(), Violation> {
    match outcome {
        Err(FenceError::Duplicate { .. }) => Ok(()),
        Err(other) => Err(violation(rule, &format!("not a duplicate: {other}"))),
        Ok(_) => Err(violation(rule, "accepted under another holder's number")),
    }
}
