//! The exclusive lock: a name plus options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::attempt::Attempt;
use crate::error::Error;
use crate::guard::{Guard, Owner};
use crate::hold::{self, Core, Spec, Tried, Waited};
use crate::inspect::{Evicted, Seen};
use crate::key::Keys;
use crate::lease::Kind;
use crate::{options, who};

/// A lock: a name plus options. Cheap to clone; no command is sent when it is made.
///
/// From [`Client::lock`](crate::Client::lock). Options return a changed handle, so that a client can
/// share one and vary it.
#[derive(Clone)]
pub struct Lock {
    core: Arc<Core>,
    spec: Arc<Spec>,
}

impl Lock {
    pub(crate) fn new(core: Arc<Core>, keys: Keys, lease: Duration, label: &str) -> Self {
        let spec = Spec { keys, lease, kind: Kind::Renewed, max_hold: None, who: who::text(label) };
        Self { core, spec: Arc::new(spec) }
    }

    /// The lock's key, prefix included.
    #[must_use]
    pub fn name(&self) -> &str {
        self.spec.keys.name()
    }

    // Options.

    /// A hold that is renewed while its guard lives, every third of `lease`.
    ///
    /// The lease is how long the lock stays taken after its holder died, and how long an outage of
    /// the server a hold survives. Default: 30 s, or the client's
    /// [`lease`](crate::ClientBuilder::lease).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) below 200 ms or above 24 h.
    pub fn renewed(self, lease: Duration) -> Result<Self, Error> {
        self.with_lease(lease, Kind::Renewed)
    }

    /// A hold that ends `lease` after it began, whatever its guard does, unless
    /// [`extend_to`](Guard::extend_to) moves its end. It is never renewed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) below 200 ms or above 24 h.
    pub fn fixed(self, lease: Duration) -> Result<Self, Error> {
        self.with_lease(lease, Kind::Fixed)
    }

    fn with_lease(self, lease: Duration, kind: Kind) -> Result<Self, Error> {
        options::check_lease(lease).map_err(|text| self.invalid(text))?;
        Ok(self.with(|spec| (spec.lease, spec.kind) = (lease, kind)))
    }

    /// The longest time that a hold may last, renewed or not: then it is lost, with
    /// [`LostReason::MaxHold`](crate::LostReason::MaxHold), and released. It bounds what work that
    /// hangs can do to everyone else. Default: none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) below 200 ms.
    pub fn max_hold(self, limit: Duration) -> Result<Self, Error> {
        options::check_max_hold(limit).map_err(|text| self.invalid(text))?;
        Ok(self.with(|spec| spec.max_hold = Some(limit)))
    }

    /// A few words for others to see while this handle's holds last: what the lock is held for.
    /// Default: the client's [`label`](crate::ClientBuilder::label).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) above 32 bytes or with control characters.
    pub fn label(self, label: &str) -> Result<Self, Error> {
        who::check_label(label).map_err(|text| self.invalid(text))?;
        Ok(self.with(|spec| spec.who = who::text(label)))
    }

    fn with(self, change: impl FnOnce(&mut Spec)) -> Self {
        let Spec { keys, lease, kind, max_hold, who } = &*self.spec;
        let (keys, who) = (keys.clone(), who.clone());
        let mut spec = Spec { keys, lease: *lease, kind: *kind, max_hold: *max_hold, who };
        change(&mut spec);
        Self { core: self.core, spec: Arc::new(spec) }
    }

    fn invalid(&self, text: String) -> Error {
        Error::invalid(text).with_lock(self.name())
    }

    // Acquiring.

    /// Takes the lock if it is free and nobody's turn, and says who has it otherwise. One command.
    ///
    /// # Errors
    ///
    /// When the server cannot be asked after three tries, or refuses. A server that does not answer
    /// is an error, never an answer: what it may have done is undone in the background.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves neither lock nor queue entry once the server has answered; what a
    /// request still on the wire can do is bounded by one lease and never renewed.
    #[tracing::instrument(level = "debug", skip_all, fields(lock = self.name()))]
    pub async fn try_acquire(&self) -> Result<Attempt, Error> {
        Ok(match hold::attempt(&self.core.shared, &self.spec).await? {
            Tried::Held(record) => Attempt::Acquired(Guard::new(self.core.clone(), record)),
            Tried::Busy(busy) => Attempt::Busy(busy),
        })
    }

    /// Waits for the lock: first come, first served, without polling.
    ///
    /// While the server cannot be reached it goes on trying, with growing delays.
    ///
    /// # Errors
    ///
    /// When the server refuses for good, the name holds something that is no lock, or the client is
    /// closed.
    ///
    /// # Cancel safety
    ///
    /// As [`try_acquire`](Self::try_acquire). The place in the queue is given up.
    #[tracing::instrument(level = "debug", skip_all, fields(lock = self.name()))]
    pub async fn acquire(&self) -> Result<Guard, Error> {
        match hold::wait(&self.core.shared, &self.spec, None).await? {
            Waited::Held(record) => Ok(Guard::new(self.core.clone(), record)),
            Waited::Busy(busy) => Err(Error::timed_out(busy.to_string()).with_lock(self.name())),
        }
    }

    /// Waits for the lock as [`acquire`](Self::acquire) does, but `within` this time at the most.
    /// [`Busy`](crate::Busy) says who still had it then, and which place in the queue had been reached.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); and when the server could not be asked when the time was over,
    /// with the phase that the time-out struck in. [`ErrorKind::Invalid`](crate::ErrorKind::Invalid)
    /// for a time of zero.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[tracing::instrument(level = "debug", skip_all, fields(lock = self.name(), ?within))]
    pub async fn acquire_within(&self, within: Duration) -> Result<Attempt, Error> {
        options::check_wait(within).map_err(|text| self.invalid(text))?;
        Ok(match hold::wait(&self.core.shared, &self.spec, Some(within)).await? {
            Waited::Held(record) => Attempt::Acquired(Guard::new(self.core.clone(), record)),
            Waited::Busy(busy) => Attempt::Busy(busy),
        })
    }

    /// Enters a hold again: one more guard, the same token, no command. The owner handle comes from
    /// [`Guard::owner`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) when the owner's hold is lost, and
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when it was released, or is of another lock:
    /// an owner is good for one hold.
    pub fn acquire_as(&self, owner: &Owner) -> Result<Guard, Error> {
        if owner.lock() == self.name() {
            owner.enter()
        } else {
            Err(self.invalid(format!("this owner holds {:?}", owner.lock())))
        }
    }

    /// Waits until this waiter's turn comes, and passes it on at once.
    ///
    /// It says that everyone who held or waited before has had the lock; not that nobody holds it
    /// now.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[tracing::instrument(level = "debug", skip_all, fields(lock = self.name()))]
    pub async fn wait_until_free(&self) -> Result<(), Error> {
        hold::until_free(&self.core.shared, &self.spec).await
    }

    // Looking in from outside.

    /// Who holds the lock, since when, until when, and how many wait. One command; changes nothing.
    ///
    /// # Errors
    ///
    /// When the server cannot be asked after three tries, or refuses: never mistaken for a free lock.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    pub async fn inspect(&self) -> Result<Seen, Error> {
        crate::inspect::look(&self.core.shared, &self.spec.keys).await
    }

    /// Ends exactly the hold, or removes exactly the foreign record, that was seen; if it is another
    /// by now, nothing changes. The next waiter is served. The holder that is evicted is told by push, if
    /// its client has ever waited, else at its next renewal. A foreign value is deleted, whatever it is.
    ///
    /// The evicted holder's work may still be running: only a fencing token stops its writes.
    ///
    /// # Errors
    ///
    /// When the server cannot be asked after three tries, or refuses.
    ///
    /// # Cancel safety
    ///
    /// The hold that was seen may or may not be over; no other is touched.
    pub async fn force_release(&self, seen: &Seen) -> Result<Evicted, Error> {
        crate::inspect::evict(&self.core.shared, &self.spec.keys, seen).await
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("name", &self.name())
            .field("kind", &self.spec.kind)
            .field("lease", &self.spec.lease)
            .field("max_hold", &self.spec.max_hold)
            .finish_non_exhaustive()
    }
}
