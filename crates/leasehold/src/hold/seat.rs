//! An owner's place in the table while it asks for a lock, and the undo of its acquisition.

use std::sync::Arc;
use std::time::Duration;

use tracing::debug;

use super::asking::{Spec, Stage, Trace};
use super::record::Record;
use super::release::Job;
use super::shared::Shared;
use super::table::State;
use crate::busy::Busy;
use crate::clock::{self, Moment};
use crate::error::{Error, Phase as At};
use crate::lease::{self, Schedule};
use crate::owner::OwnerId;
use crate::server::{Fault, Ticket};

/// What came of a hold that was won.
pub(crate) enum Won {
    Held(Arc<Record>),
    /// So much of the lease was over when the answer came that it is given back.
    TooLate,
    /// Enough is left, but the request was first sent too long ago to count on it: a fresh one tells.
    Stale,
    /// The server says that it is not ours.
    NotOurs,
}

/// An owner's place in the table, and the undo of its acquisition: when it is dropped before it
/// holds, the owner is out of the table and its pass with the janitor.
pub(crate) struct Seat {
    pub(crate) shared: Arc<Shared>,
    pub(crate) spec: Arc<Spec>,
    pub(crate) owner: OwnerId,
    pub(crate) waits: bool,
    pub(crate) at: At,
    entered: Moment,
    seated: bool,
}

impl Seat {
    pub(crate) fn enter(shared: &Arc<Shared>, spec: &Arc<Spec>, waits: bool) -> Result<Self, Error> {
        let mut seat = Self {
            shared: shared.clone(),
            spec: spec.clone(),
            owner: shared.fresh_owner(),
            waits,
            at: At::Acquire,
            entered: clock::now(),
            seated: false,
        };
        seat.sit(None)?;
        Ok(seat)
    }

    fn sit(&mut self, ticket: Option<Ticket>) -> Result<(), Error> {
        let mut table = self.shared.table();
        if table.closing {
            return Err(self.closed());
        }
        table.enter(self.owner.count, self.spec.clone(), self.waits, ticket);
        self.seated = true;
        Ok(())
    }

    /// Sends one `take` and takes its answer in.
    pub(crate) async fn take(&mut self) {
        if let Some(call) = self.shared.begin_take(self.owner, self.waits, false) {
            let answer = self.shared.send_take(&call).await;
            self.shared.took(&call, answer);
        }
    }

    /// The same as a try, from a seat that will wait: no queue entry, no push channel needed.
    pub(crate) async fn take_without_waiting(&mut self) {
        if let Some(call) = self.shared.begin_take(self.owner, false, false) {
            let answer = self.shared.send_take(&call).await;
            self.shared.took(&call, answer);
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        self.shared.table().asking(self.owner.count).map_or(Stage::Closed, |asking| asking.stage.clone())
    }

    /// Back to waiting for news, after news was dealt with.
    pub(crate) fn settle(&mut self) {
        let mut table = self.shared.table();
        if table.asking(self.owner.count).is_some_and(|asking| !matches!(asking.stage, Stage::Closed)) {
            table.turn(self.owner.count, Stage::Waiting);
        }
    }

    pub(crate) fn seen(&self) -> Option<Busy> {
        self.shared.table().asking(self.owner.count).and_then(|asking| asking.seen.clone())
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        self.shared.table().asking(self.owner.count).and_then(|asking| asking.fault.clone())
    }

    /// A hold that a reply spoke of becomes ours, or is given back.
    pub(crate) async fn won(
        &mut self,
        sent: Moment,
        token: u64,
        remaining: Duration,
        unclaimed: bool,
    ) -> Result<Won, Error> {
        if unclaimed { self.claim(clock::now() + remaining).await } else { self.hold(sent, token, remaining) }
    }

    /// Enters the hold into the table, unless too little of it is left.
    pub(crate) fn hold(&mut self, sent: Moment, token: u64, remaining: Duration) -> Result<Won, Error> {
        let now = clock::now();
        let deadline = lease::deadline(sent, remaining, self.shared.margin(now));
        if deadline.since(now) < self.spec.lease / 2 {
            debug!(lock = self.spec.keys.name(), owner = %self.owner, token, ?remaining, "won too late");
            let fresh = lease::deadline(now, remaining, self.shared.margin(now)).since(now);
            return Ok(if fresh < self.spec.lease / 2 { Won::TooLate } else { Won::Stale });
        }
        let limit = self.spec.max_hold.map_or(Moment::NEVER, |limit| now + limit);
        let schedule = Schedule::new(self.spec.kind, self.spec.lease, sent, deadline, limit);
        let mut record = Record::new(self.spec.keys.clone(), self.owner, token, now, deadline)
            .map_err(|_| self.error(Fault::garbled("take")))?;
        let mut table = self.shared.table();
        if table.closing {
            return Err(self.closed());
        }
        record.unsure = table.asking(self.owner.count).is_some_and(|asking| asking.needs_tombstone());
        let record = Arc::new(record);
        let first = table.hold(self.owner.count, record.clone(), schedule);
        drop(table);
        self.seated = false;
        if first {
            self.shared.renewals.notify_one();
        }
        let waited = now.since(self.entered);
        debug!(lock = self.spec.keys.name(), owner = %self.owner, token, ?waited, lease = ?self.spec.lease, "acquired");
        Ok(Won::Held(record))
    }

    /// Goes on as a fresh owner with the old ticket: an owner is dead after any pass.
    pub(crate) fn start_over(&mut self) -> Result<(), Error> {
        let ticket = self.shared.table().asking(self.owner.count).and_then(|asking| asking.ticket);
        self.leave();
        self.owner = self.shared.fresh_owner();
        self.sit(ticket)
    }

    fn leave(&mut self) {
        if std::mem::take(&mut self.seated) {
            let state = self.shared.table().remove(self.owner.count);
            if let Some(State::Asking(asking)) = state
                && asking.trace != Trace::None
            {
                let tombstone = asking.needs_tombstone();
                let lease = self.spec.lease;
                self.shared.pass_later(Job::of_owner(&self.spec.keys, self.owner, tombstone, lease));
            }
        }
    }

    // Errors, each with what a reader needs.

    pub(crate) fn error(&self, fault: Fault) -> Error {
        self.place(Error::from(fault))
    }

    pub(crate) fn closed(&self) -> Error {
        Error::closed().with_lock(self.spec.keys.name())
    }

    pub(crate) fn hopeless(&self, why: &str) -> Error {
        self.place(Error::foreign(why))
    }

    pub(crate) fn too_late(&self) -> Error {
        self.place(Error::timed_out("the answer came when more than half of the lease was over"))
    }

    fn place(&self, error: Error) -> Error {
        let elapsed = clock::now().since(self.entered);
        let queued = self.shared.table().asking(self.owner.count).is_some_and(|asking| asking.queued);
        let at = if queued && self.at == At::Acquire { At::Wait } else { self.at };
        error.with_lock(self.spec.keys.name()).at(at, self.shared.server.address(), elapsed)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
    }
}
