//! The locks that this client waits for: their waiters in order, and one timer each.

use std::collections::{BTreeSet, HashMap};

use crate::clock::Moment;
use crate::key::Keys;
use crate::server::Ticket;

/// This client's waiters of one lock. There while there is one.
#[derive(Default)]
struct Waited {
    /// Waiters that nothing has come for yet, oldest first.
    waiters: BTreeSet<Place>,
    /// How many owners there are, whatever their stage.
    owners: usize,
    /// Owners that the server's queue has lost and that are about to enter it again.
    refill: Vec<u64>,
    /// A check failed that may have been the one to be told that the queue is lost, or to enter it again;
    /// or a refill was not finished. The next answer begins a whole one.
    unsure: bool,
    due: Option<Moment>,
    /// When this client last had a pass of the lock answered: what a request sent earlier says about
    /// its own owners may be out of date.
    passed: Moment,
    /// When pushes may last have been missed: what a request sent earlier is answered puts no check off.
    missed: Moment,
}

/// Where a waiter stands: tickets are below 2^53, so those without one come behind, by age.
type Place = (u64, u64);

fn place(ticket: Option<Ticket>, owner: u64) -> Place {
    (ticket.map_or(1 << 62, |ticket| ticket.0), owner)
}

/// Invariant: a lock with waiters has a timer from its first answer on, and every answer sets it.
#[derive(Default)]
pub(crate) struct WaitedLocks {
    locks: HashMap<Keys, Waited>,
    timers: BTreeSet<(Moment, Keys)>,
}

impl WaitedLocks {
    // Owners.

    pub(crate) fn enter(&mut self, keys: &Keys, ticket: Option<Ticket>, owner: u64) {
        let waited = self.locks.entry(keys.clone()).or_default();
        waited.owners += 1;
        waited.waiters.insert(place(ticket, owner));
    }

    pub(crate) fn leave(&mut self, keys: &Keys, ticket: Option<Ticket>, owner: u64) {
        let Some(waited) = self.locks.get_mut(keys) else { return };
        waited.waiters.remove(&place(ticket, owner));
        waited.owners -= 1;
        if waited.owners == 0 {
            if let Some(due) = waited.due {
                self.timers.remove(&(due, keys.clone()));
            }
            self.locks.remove(keys);
        }
    }

    /// Whether something has come for an owner: one that waits on is checked for.
    pub(crate) fn set_waiting(&mut self, keys: &Keys, ticket: Option<Ticket>, owner: u64, waits: bool) {
        let Some(waited) = self.locks.get_mut(keys) else { return };
        if waits {
            waited.waiters.insert(place(ticket, owner));
        } else {
            waited.waiters.remove(&place(ticket, owner));
        }
    }

    pub(crate) fn set_ticket(&mut self, keys: &Keys, old: Option<Ticket>, new: Ticket, owner: u64) {
        if let Some(waited) = self.locks.get_mut(keys)
            && waited.waiters.remove(&place(old, owner))
        {
            waited.waiters.insert(place(Some(new), owner));
        }
    }

    /// The lock's waiters that nothing has come for, oldest first.
    pub(crate) fn waiters(&self, keys: &Keys) -> impl Iterator<Item = u64> {
        self.locks.get(keys).into_iter().flat_map(|waited| waited.waiters.iter().map(|(_, owner)| *owner))
    }

    pub(crate) fn keys(&self) -> Vec<Keys> {
        self.locks.keys().cloned().collect()
    }

    // Timers.

    /// Sets the lock's one timer, if the lock has waiters. True if it is now the first of all.
    pub(crate) fn arm(&mut self, keys: &Keys, due: Moment) -> bool {
        let Some(waited) = self.locks.get_mut(keys) else { return false };
        if let Some(old) = waited.due.replace(due) {
            self.timers.remove(&(old, keys.clone()));
        }
        self.timers.insert((due, keys.clone()));
        self.timers.first().is_some_and(|first| first.0 == due)
    }

    /// As [`arm`](Self::arm), but puts nothing off: the server was promised a check by then, and takes
    /// a client that does not keep its promise for late.
    pub(crate) fn arm_by(&mut self, keys: &Keys, due: Moment) -> bool {
        let sooner = self.locks.get(keys).is_some_and(|waited| waited.due.is_none_or(|old| due < old));
        sooner && self.arm(keys, due)
    }

    pub(crate) fn next_due(&self) -> Moment {
        self.timers.first().map_or(Moment::NEVER, |first| first.0)
    }

    /// A lock whose timer is due. The timer is set to `backstop`: whatever becomes of the check, the
    /// lock keeps one.
    pub(crate) fn pop_due(&mut self, now: Moment, backstop: Moment) -> Option<Keys> {
        let (due, keys) = self.timers.first()?.clone();
        if due > now {
            return None;
        }
        self.arm(&keys, backstop);
        Some(keys)
    }

    // A queue that the server has lost.

    /// Every waiter of the lock is to enter the queue again, each at its ticket. Once at a time: each
    /// of them will be told that it was missing.
    pub(crate) fn refill(&mut self, keys: &Keys, but: u64) -> bool {
        let Some(waited) = self.locks.get_mut(keys).filter(|waited| waited.refill.is_empty()) else {
            return false;
        };
        // Popped from the end: the oldest goes first.
        let owners = waited.waiters.iter().rev().map(|(_, owner)| *owner);
        waited.refill = owners.filter(|owner| *owner != but).collect();
        !waited.refill.is_empty()
    }

    pub(crate) fn set_unsure(&mut self, keys: &Keys) {
        if let Some(waited) = self.locks.get_mut(keys) {
            waited.unsure = true;
        }
    }

    /// Whether the queue is to be filled again at this answer, whatever it says; asked once.
    pub(crate) fn take_unsure(&mut self, keys: &Keys) -> bool {
        self.locks.get_mut(keys).is_some_and(|waited| std::mem::take(&mut waited.unsure))
    }

    /// The locks with owners that are to enter their queue again.
    pub(crate) fn refilling(&self) -> Vec<Keys> {
        let locks = self.locks.iter().filter(|(_, waited)| !waited.refill.is_empty());
        locks.map(|(keys, _)| keys.clone()).collect()
    }

    pub(crate) fn pop_refill(&mut self, keys: &Keys) -> Option<u64> {
        self.locks.get_mut(keys)?.refill.pop()
    }

    /// Lists that are half done would be in the way of the next one, which is whole.
    pub(crate) fn forget_refills(&mut self) {
        for waited in self.locks.values_mut() {
            waited.unsure |= !waited.refill.is_empty();
            waited.refill.clear();
        }
    }

    // What makes an answer out of date.

    pub(crate) fn note_pass(&mut self, keys: &Keys, now: Moment) {
        if let Some(waited) = self.locks.get_mut(keys) {
            waited.passed = now;
        }
    }

    pub(crate) fn passed_since(&self, keys: &Keys, sent: Moment) -> bool {
        self.locks.get(keys).is_some_and(|waited| waited.passed >= sent)
    }

    pub(crate) fn note_missed(&mut self, keys: &Keys, now: Moment) {
        if let Some(waited) = self.locks.get_mut(keys) {
            waited.missed = now;
        }
    }

    pub(crate) fn missed_since(&self, keys: &Keys, sent: Moment) -> bool {
        self.locks.get(keys).is_some_and(|waited| waited.missed >= sent)
    }
}
