//! What to do when the store is ahead of the lock.

use crate::{FenceError, Mark, Token};

/// Rounds of [`claim_repairing`]. One is enough for a lost counter; a second meets another holder who
/// repairs at the same time. What three do not cure is no lost counter.
const MAX_ROUNDS: u32 = 3;

/// Whoever can raise a counter and issue a new token in place: a lock's guard, or an issuer.
///
/// An implementation must make sure that the holder still *is* the holder, in the same step that issues
/// the token. A zombie that is given a newer token is not fenced any more.
pub trait Reissue {
    /// Why no new token could be had.
    type Error;

    /// Raises the counter past the mark, and issues a new token to the same holder.
    fn reissue(&self, refused: &Token, past: Mark)
    -> impl Future<Output = Result<Token, Self::Error>> + Send;
}

/// Why a claim did not succeed, with repairs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError<E, R> {
    /// The store's answer: still a refusal after three rounds, or another error.
    #[error("the claim failed: {0}")]
    Claim(FenceError<E>),
    /// No new token could be had: usually because the hold is over, and then the store was right.
    #[error("the store has seen a later token, and there is no new one: {0}")]
    Reissue(R),
}

/// Claims, and if the store has seen a higher sequence than a holder who *still is* the holder, raises
/// the counter past it, takes a new token, and claims again: at most three times.
///
/// A store that is ahead of a live holder proves that the lock's server has lost its counter (flush,
/// fail-over, a clock that went back). Safety does not depend on that counter; going on does. Each round
/// is reported as an error-level event, if the feature `tracing` is on.
///
/// Answers the token that was accepted, and the claim.
///
/// ```
/// # #[cfg(feature = "issue")] {
/// use leasehold_fencing::{Issuer, Memory, Token, claim_repairing};
///
/// # async fn go(issuer: Issuer, stock: Memory<u32>, token: Token) -> Result<(), Box<dyn std::error::Error>> {
/// let (token, claim) =
///     claim_repairing(&issuer, token, async |token| stock.claim(&token)).await?;
/// # Ok(())
/// # }
/// # }
/// ```
///
/// # Errors
///
/// See [`RepairError`].
pub async fn claim_repairing<R: Reissue, C, E>(
    issuer: &R,
    mut token: Token,
    claim: impl AsyncFn(Token) -> Result<C, FenceError<E>>,
) -> Result<(Token, C), RepairError<E, R::Error>> {
    let mut rounds = 0;
    loop {
        let refused = match claim(token.clone()).await {
            Ok(claimed) => return Ok((token, claimed)),
            Err(refused) => refused,
        };
        let Some(stored) = refused.stored().filter(|_| rounds < MAX_ROUNDS) else {
            return Err(RepairError::Claim(refused));
        };
        rounds += 1;
        report(&token, stored, rounds);
        token = issuer.reissue(&token, stored).await.map_err(RepairError::Reissue)?;
    }
}

#[cfg(feature = "tracing")]
fn report(token: &Token, stored: Mark, round: u32) {
    tracing::error!(
        counter_regressed = true,
        resource = token.resource(),
        sequence = token.sequence(),
        stored = stored.sequence(),
        round,
        "the store is ahead of the lock's counter, which has lost state; raising it"
    );
}

#[cfg(not(feature = "tracing"))]
fn report(_: &Token, _: Mark, _: u32) {}
