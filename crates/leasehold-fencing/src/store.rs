//! What a store must do, as a trait.

use std::error::Error;

use crate::{FenceError, Token};

/// A store that keeps one value for each resource, and lets nobody reach it without a claim.
///
/// Implement it over your own store, with as much or as little of its API as one value needs, and run
/// [`conformance`](crate::conformance) on it: it finds the usual mistakes.
///
/// # The three rules
///
/// 1. `claim` compares by [`Token::check`] and records a newer token, in one atomic step. When it
///    answers, every later `write` under an older claim is refused, and every write that was accepted
///    before can be read.
/// 2. `read` and `write` take a claim, and `Claim` cannot be made but by `claim`: give it private
///    fields. A holder that reads first and claims later can lose its predecessor's last write.
/// 3. `write` compares again, in one atomic step with the write: only the claim that is recorded *now*
///    may write, as often as it likes.
pub trait FencedStore: Sync {
    /// The store's own error.
    type Error: Error + Send + Sync + 'static;
    /// The proof that the mark was raised.
    type Claim: Send + Sync;

    /// Raises the store's mark for the token's resource.
    fn claim(
        &self,
        token: &Token,
    ) -> impl Future<Output = Result<Self::Claim, FenceError<Self::Error>>> + Send;

    /// The value, if there is one. It may also refuse a claim that is not the recorded one any more.
    fn read(
        &self,
        claim: &Self::Claim,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, FenceError<Self::Error>>> + Send;

    /// Replaces the value, if the claim is the recorded one.
    fn write(
        &self,
        claim: &Self::Claim,
        value: &[u8],
    ) -> impl Future<Output = Result<(), FenceError<Self::Error>>> + Send;
}
