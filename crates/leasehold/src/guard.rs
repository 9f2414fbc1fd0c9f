//! What an acquisition gives: a guard that keeps the hold, and views of it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use leasehold_fencing::Token;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::error::Error;
use crate::hold::{self, Core, Record};
use crate::outcome::{HoldState, LostReason, Outcome};

/// A view of one hold: what it says can be read, watched and asked from anywhere, and it keeps
/// nothing held. [`Guard`] dereferences to it, and [`Lock::run`](crate::Lock::run) gives one to the
/// protected work.
#[derive(Clone)]
pub struct Held {
    core: Arc<Core>,
    record: Arc<Record>,
}

impl Held {
    pub(crate) fn new(core: Arc<Core>, record: Arc<Record>) -> Self {
        Self { core, record }
    }

    /// The lock's key, prefix included.
    #[must_use]
    pub fn lock(&self) -> &str {
        self.record.keys.name()
    }

    /// The owner id, as others see it in [`Lock::inspect`](crate::Lock::inspect).
    #[must_use]
    pub fn owner_id(&self) -> String {
        self.record.owner.to_string()
    }

    /// The fencing token of this hold: larger than that of every earlier holder. Send it with each
    /// write, to a store that refuses smaller ones. Re-entry keeps it.
    #[must_use]
    pub fn token(&self) -> Token {
        self.record.token()
    }

    /// Whether the hold is certain to be ours now: neither lost nor released, and its deadline not
    /// past. Costs no command. Once `false`, always `false`.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.state(), HoldState::Safe | HoldState::AtRisk { .. })
    }

    /// How long the hold is certain to be ours from now, if nothing renews it; zero when it is over.
    /// Margins for clock rates and late timers are taken off.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.is_held() { self.record.deadline().since(clock::now()) } else { Duration::ZERO }
    }

    /// How the hold stands now.
    #[must_use]
    pub fn state(&self) -> HoldState {
        self.core.shared.stand(&self.record)
    }

    /// A watch on [`state`](Self::state): each change is published once.
    #[must_use]
    pub fn states(&self) -> watch::Receiver<HoldState> {
        let _ = self.state();
        self.record.states(clock::now())
    }

    /// A token that is cancelled when the hold is lost. A release does not cancel it.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        let _ = self.state();
        self.record.cancellation_token()
    }

    /// Ends when the hold is lost, with the reason; never, if it is released first.
    ///
    /// For an expiry it ends before anybody else can hold the lock. For force, deletion, eviction and
    /// failover it ends at a push notice or at the next renewal, a third of the lease later at most.
    ///
    /// It is told by the client's tasks: while the runtime that the client was connected in is blocked
    /// or gone, only [`is_held`](Self::is_held) and its like tell.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing, and a loss that was missed is told at the next call.
    pub async fn lost(&self) -> LostReason {
        let _ = self.state();
        self.record.lost().await
    }

    /// Asks the server whether the hold is still ours, and how long it is certain to be.
    ///
    /// A renewed hold is renewed by it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) when it is over: nothing is asked after the
    /// deadline. Otherwise the server could not be asked, and the hold stands as it stood.
    ///
    /// # Cancel safety
    ///
    /// Safe: at worst the hold was lengthened to its lease.
    pub async fn confirm(&self) -> Result<Duration, Error> {
        hold::confirm(&self.core.shared, &self.record, None).await
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("lock", &self.lock())
            .field("token", &self.record.sequence())
            .field("state", &self.record.state(clock::now()))
            .finish_non_exhaustive()
    }
}

/// A lock that is held. Renewed until it is released or dropped, or fixed to its time.
///
/// Dropping it releases in the background and returns at once; it never blocks, never panics and
/// needs no runtime. When the client's runtime is gone, the lease ends the hold. Prefer
/// [`release`](Self::release): it says whether the hold was whole.
#[must_use = "a guard that is dropped releases the lock at once"]
pub struct Guard {
    held: Held,
    /// It has left the count of guards: `release` settles what follows.
    parted: bool,
}

impl Guard {
    pub(crate) fn new(core: Arc<Core>, record: Arc<Record>) -> Self {
        Self { held: Held::new(core, record), parted: false }
    }

    /// A view of the hold for code that only looks.
    #[must_use]
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// Enters again: one more guard of the same hold, with the same token and no command. The last
    /// guard out releases.
    pub fn reenter(&self) -> Self {
        // This guard is one of them, so there is at least one.
        self.held.record.join();
        Self { held: self.held.clone(), parted: false }
    }

    /// A handle that nested code can carry, and enter again with:
    /// [`Lock::acquire_as`](crate::Lock::acquire_as). It keeps nothing held.
    #[must_use]
    pub fn owner(&self) -> Owner {
        Owner(self.held.clone())
    }

    /// Moves the end of the hold to `duration` from now, if that is later. It never adds up, and it
    /// never shortens. A renewed hold is renewed at its own lease again when that is due.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a duration outside the limits of a
    /// lease, [`ErrorKind::Lost`](crate::ErrorKind::Lost) when the hold is over. Otherwise the server
    /// could not be asked: the end may or may not have moved, and the hold counts on the old one.
    ///
    /// # Cancel safety
    ///
    /// As for an error of the server: the end may have moved, and the hold counts on the old one.
    pub async fn extend_to(&self, duration: Duration) -> Result<Duration, Error> {
        crate::options::check_lease(duration)
            .map_err(|text| Error::invalid(text).with_lock(self.held.lock()))?;
        hold::confirm(&self.held.core.shared, &self.held.record, Some(duration)).await
    }

    /// Releases the lock, or leaves one of several guards of the hold.
    ///
    /// The outcome says whether the hold was whole. A server that does not answer is no error here but
    /// [`Outcome::Unknown`]: the release goes on in the background, and the lease ends it at last.
    ///
    /// # Errors
    ///
    /// When the server refuses for good, a permission that was taken away for one. Nothing was
    /// released; the hold is over for this process all the same, and the lease ends it.
    ///
    /// # Cancel safety
    ///
    /// From the first poll on the hold is over for this process. A dropped future leaves the rest to
    /// the background.
    pub async fn release(mut self) -> Result<Outcome, Error> {
        self.parted = true;
        let Held { core, record } = &self.held;
        if record.part() { hold::release(&core.shared, record).await } else { Ok(Outcome::StillHeld) }
    }
}

impl Deref for Guard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.parted && self.held.record.part() {
            self.held.core.shared.release_later(&self.held.record);
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.held).finish()
    }
}

/// Who holds a lock, as a handle that nested code can carry. From [`Guard::owner`].
///
/// It keeps nothing held. While the hold lives, [`Lock::acquire_as`](crate::Lock::acquire_as) gives
/// one more guard of it without a command.
#[derive(Debug, Clone)]
pub struct Owner(pub(crate) Held);

impl Owner {
    /// The lock's key, prefix included.
    #[must_use]
    pub fn lock(&self) -> &str {
        self.0.lock()
    }

    /// One more guard of the hold, if it is whole and has one.
    pub(crate) fn enter(&self) -> Result<Guard, Error> {
        let refuse = |error: Error| Err(error.with_lock(self.lock()));
        match self.0.state() {
            HoldState::Lost(reason) => refuse(Error::lost(reason)),
            HoldState::Safe | HoldState::AtRisk { .. } if self.0.record.join() => {
                Ok(Guard { held: self.0.clone(), parted: false })
            }
            _ => refuse(Error::invalid("this owner's hold was released: an owner is good for one hold")),
        }
    }
}
