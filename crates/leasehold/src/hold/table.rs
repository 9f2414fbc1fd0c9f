//! The one map of a client's owners, and what is due for them.
//!
//! Nothing here sends or sleeps: it is read and changed under one mutex, in short steps.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::acquire::Spec;
use super::record::Record;
use crate::busy::Busy;
use crate::clock::Moment;
use crate::key::Keys;
use crate::lease::{Schedule, Step};
use crate::outcome::LostReason;
use crate::server::{Fault, Renew, Ticket};

/// The state of an owner. An owner in no state is gone.
pub(crate) enum State {
    /// Before its hold: a `take` of it is or was under way.
    Asking(Box<Asking>),
    Held(Held),
    /// Its pass is under way; news about it means nothing any more.
    Passing,
}

/// An owner that wants the lock.
pub(crate) struct Asking {
    pub(crate) spec: Arc<Spec>,
    /// In the queue, or on its way there. A try is not: no grant can be meant for it.
    pub(crate) waits: bool,
    pub(crate) phase: Phase,
    pub(crate) ticket: Option<Ticket>,
    /// `take`s of this owner without an answer so far.
    pub(crate) in_flight: u32,
    /// The `take` under way is a check: the task `waits` takes its answer in.
    pub(crate) checked: bool,
    /// What the server may have of it.
    pub(crate) trace: Trace,
    /// When the request under way was first sent; kept while its outcome is unknown.
    pub(crate) first_sent: Option<Moment>,
    /// The server said "queued", and no grant has come since.
    pub(crate) queued: bool,
    /// The token of the last grant that was read, so that a doubled push is one grant.
    pub(crate) granted: Option<u64>,
    pub(crate) waker: Option<Waker>,
    /// What the server last said about the lock.
    pub(crate) seen: Option<Busy>,
    /// Why it could not be asked since.
    pub(crate) fault: Option<Fault>,
}

/// What an asking owner may have left on the server, and so what ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trace {
    /// Nothing was sent, or only tries that were answered.
    None,
    /// Every `take` was sent once and answered, or is under way: a pass ends it.
    Known,
    /// A `take` had an unknown outcome or was sent twice: the pass leaves a tombstone.
    Unknown,
}

impl Asking {
    /// The pass that ends this owner, if one is needed, must leave a tombstone.
    pub(crate) fn needs_tombstone(&self) -> bool {
        self.in_flight > 0 || self.trace == Trace::Unknown
    }
}

/// How far an asking owner is.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// Nothing new since the last `take`.
    Waiting,
    /// A hold was written for it by a hand-over, and lives until about `until` unless claimed.
    Granted { until: Moment },
    /// A `take` first sent at `sent` was answered with a hold.
    Won { sent: Moment, token: u64, remaining: Duration, unclaimed: bool },
    /// A `take` failed while the owner had no ticket: its own task decides.
    Failed(Fault),
    /// The server holds a tombstone for it: it can never win.
    Void,
    /// What stands at the name will not end by itself, or is no lock: waiting is no use.
    Hopeless(&'static str),
    /// The client was closed.
    Closed,
}

pub(crate) struct Held {
    pub(crate) record: Arc<Record>,
    pub(crate) schedule: Schedule,
    due: Moment,
}

/// This client's waiters of one lock. There while there is one.
struct Waited {
    /// Waiters that nothing has come for yet, oldest first: by ticket, those without one last.
    waiters: BTreeSet<(u64, u64)>,
    /// How many owners there are, whatever their phase.
    owners: usize,
    /// Owners that the server's queue has lost and that are about to enter it again.
    refill: Vec<u64>,
    due: Moment,
    /// When this client last had a pass of the lock answered: what a request sent earlier says about
    /// its own owners may be out of date.
    passed: Moment,
    /// When pushes may last have been missed: what a request sent earlier is answered puts no check off.
    missed: Moment,
}

#[derive(Default)]
pub(crate) struct Table {
    owners: HashMap<u64, State>,
    waited: HashMap<Keys, Waited>,
    renewals: BTreeSet<(Moment, u64)>,
    checks: BTreeSet<(Moment, Keys)>,
    pub(crate) closing: bool,
}

/// The order of waiters: tickets are below 2^53, so those without one come behind, by age.
fn order(ticket: Option<Ticket>, owner: u64) -> (u64, u64) {
    (ticket.map_or(1 << 62, |ticket| ticket.0), owner)
}

impl Table {
    pub(crate) fn get(&self, owner: u64) -> Option<&State> {
        self.owners.get(&owner)
    }

    pub(crate) fn asking(&mut self, owner: u64) -> Option<&mut Asking> {
        match self.owners.get_mut(&owner) {
            Some(State::Asking(asking)) => Some(asking),
            _ => None,
        }
    }

    pub(crate) fn enter(&mut self, owner: u64, spec: Arc<Spec>, waits: bool, ticket: Option<Ticket>) {
        if waits {
            let waited = self.waited.entry(spec.keys.clone()).or_insert_with(|| Waited {
                waiters: BTreeSet::new(),
                owners: 0,
                refill: Vec::new(),
                due: Moment::NEVER,
                passed: Moment::default(),
                missed: Moment::default(),
            });
            waited.owners += 1;
            waited.waiters.insert(order(ticket, owner));
        }
        let asking = Asking {
            spec,
            waits,
            phase: Phase::Waiting,
            ticket,
            in_flight: 0,
            checked: false,
            trace: Trace::None,
            first_sent: None,
            queued: false,
            granted: None,
            waker: None,
            seen: None,
            fault: None,
        };
        self.owners.insert(owner, State::Asking(Box::new(asking)));
    }

    /// Changes an asking owner's phase, keeps the lock's waiters in step, and hands back whom to wake.
    pub(crate) fn turn(&mut self, owner: u64, phase: Phase) -> Option<Waker> {
        let Some(State::Asking(asking)) = self.owners.get_mut(&owner) else { return None };
        if let Some(waited) = self.waited.get_mut(&asking.spec.keys).filter(|_| asking.waits) {
            let place = order(asking.ticket, owner);
            if matches!(phase, Phase::Waiting) {
                waited.waiters.insert(place);
            } else {
                waited.waiters.remove(&place);
            }
        }
        asking.phase = phase;
        asking.waker.take()
    }

    pub(crate) fn set_ticket(&mut self, owner: u64, ticket: Ticket) {
        let Some(State::Asking(asking)) = self.owners.get_mut(&owner) else { return };
        let old = order(asking.ticket, owner);
        asking.ticket = Some(ticket);
        if let Some(waited) = self.waited.get_mut(&asking.spec.keys)
            && waited.waiters.remove(&old)
        {
            waited.waiters.insert(order(Some(ticket), owner));
        }
    }

    /// Takes an owner out, whatever its state.
    pub(crate) fn remove(&mut self, owner: u64) -> Option<State> {
        let state = self.owners.remove(&owner)?;
        match &state {
            State::Asking(asking) if asking.waits => self.unwait(&asking.spec.keys, asking.ticket, owner),
            State::Held(held) => {
                self.renewals.remove(&(held.due, owner));
            }
            _ => {}
        }
        Some(state)
    }

    fn unwait(&mut self, keys: &Keys, ticket: Option<Ticket>, owner: u64) {
        let Some(waited) = self.waited.get_mut(keys) else { return };
        waited.waiters.remove(&order(ticket, owner));
        waited.owners -= 1;
        if waited.owners == 0 {
            self.checks.remove(&(waited.due, keys.clone()));
            self.waited.remove(keys);
        }
    }

    // Waited locks and their timers.

    /// Sets the lock's one timer, if the lock has waiters. True if it is now the first of all.
    pub(crate) fn arm(&mut self, keys: &Keys, due: Moment) -> bool {
        let Some(waited) = self.waited.get_mut(keys) else { return false };
        self.checks.remove(&(waited.due, keys.clone()));
        waited.due = due;
        self.checks.insert((due, keys.clone()));
        self.checks.first().is_some_and(|first| first.0 == due)
    }

    /// As [`arm`](Self::arm), but puts nothing off: the server was promised a check by then, and takes
    /// a client that does not keep its promise for late.
    pub(crate) fn arm_by(&mut self, keys: &Keys, due: Moment) -> bool {
        self.waited.get(keys).is_some_and(|waited| due < waited.due) && self.arm(keys, due)
    }

    pub(crate) fn next_check(&self) -> Moment {
        self.checks.first().map_or(Moment::NEVER, |first| first.0)
    }

    /// A lock whose timer is due, and its oldest waiter without a `take` under way. The timer is set
    /// to `backstop`: whatever becomes of that `take`, the lock keeps one.
    pub(crate) fn due_check(&mut self, now: Moment, backstop: Moment) -> Option<(Keys, Option<u64>)> {
        let (due, keys) = self.checks.first()?.clone();
        if due > now {
            return None;
        }
        self.arm(&keys, backstop);
        let oldest = self.oldest(&keys);
        Some((keys, oldest))
    }

    fn oldest(&self, keys: &Keys) -> Option<u64> {
        let waited = self.waited.get(keys)?;
        waited.waiters.iter().map(|(_, owner)| *owner).find(|owner| {
            matches!(self.owners.get(owner), Some(State::Asking(asking)) if asking.in_flight == 0 && asking.ticket.is_some())
        })
    }

    /// The server's queue has lost its entries: every waiter of the lock is to enter it again, each
    /// at its ticket. Once at a time: each of them will be told that it was missing.
    pub(crate) fn refill(&mut self, keys: &Keys, but: u64) -> bool {
        let Some(waited) = self.waited.get_mut(keys).filter(|waited| waited.refill.is_empty()) else {
            return false;
        };
        // Popped from the end: the oldest goes first.
        waited.refill =
            waited.waiters.iter().rev().map(|(_, owner)| *owner).filter(|owner| *owner != but).collect();
        !waited.refill.is_empty()
    }

    /// A task `waits` that begins anew has no checks under way; what became of them is unknown. Hands
    /// back whom to wake.
    pub(crate) fn forget_checks(&mut self) -> Vec<Waker> {
        let asking = self.owners.values_mut().filter_map(|state| match state {
            State::Asking(asking) if asking.in_flight > 0 && asking.checked => Some(asking),
            _ => None,
        });
        let wakers = asking.filter_map(|asking| {
            asking.in_flight = 0;
            asking.trace = Trace::Unknown;
            asking.waker.take()
        });
        wakers.collect()
    }

    pub(crate) fn forget_refills(&mut self) {
        for waited in self.waited.values_mut() {
            waited.refill.clear();
        }
    }

    /// The locks with owners that are to enter their queue again.
    pub(crate) fn refilling(&self) -> Vec<Keys> {
        let locks = self.waited.iter().filter(|(_, waited)| !waited.refill.is_empty());
        locks.map(|(keys, _)| keys.clone()).collect()
    }

    /// The next owner to enter a queue again.
    pub(crate) fn next_refill(&mut self, keys: &Keys) -> Option<u64> {
        loop {
            let owner = self.waited.get_mut(keys)?.refill.pop()?;
            if self
                .asking(owner)
                .is_some_and(|asking| asking.in_flight == 0 && matches!(asking.phase, Phase::Waiting))
            {
                return Some(owner);
            }
        }
    }

    pub(crate) fn waited_locks(&self) -> Vec<Keys> {
        self.waited.keys().cloned().collect()
    }

    pub(crate) fn note_pass(&mut self, keys: &Keys, now: Moment) {
        if let Some(waited) = self.waited.get_mut(keys) {
            waited.passed = now;
        }
    }

    pub(crate) fn note_missed(&mut self, keys: &Keys, now: Moment) {
        if let Some(waited) = self.waited.get_mut(keys) {
            waited.missed = now;
        }
    }

    pub(crate) fn missed_since(&self, keys: &Keys, sent: Moment) -> bool {
        self.waited.get(keys).is_some_and(|waited| waited.missed >= sent)
    }

    pub(crate) fn passed_since(&self, keys: &Keys, sent: Moment) -> bool {
        self.waited.get(keys).is_some_and(|waited| waited.passed >= sent)
    }

    // Holds and their renewals.

    /// Turns an asking owner into a holder. True if its renewal is now the first of all.
    pub(crate) fn hold(&mut self, owner: u64, record: Arc<Record>, schedule: Schedule) -> bool {
        self.remove(owner);
        let due = schedule.wake();
        self.owners.insert(owner, State::Held(Held { record, schedule, due }));
        self.renewals.insert((due, owner));
        self.renewals.first() == Some(&(due, owner))
    }

    /// Changes a hold's timetable. `None` when it is held no more.
    pub(crate) fn reschedule<T>(&mut self, owner: u64, change: impl FnOnce(&mut Held) -> T) -> Option<T> {
        let Some(State::Held(held)) = self.owners.get_mut(&owner) else { return None };
        let answer = change(held);
        let due = held.schedule.wake();
        if due != held.due {
            self.renewals.remove(&(held.due, owner));
            self.renewals.insert((due, owner));
            held.due = due;
        }
        Some(answer)
    }

    /// A hold that is to be passed now: news about it means nothing from here on.
    pub(crate) fn begin_pass(&mut self, owner: u64) -> bool {
        let held = matches!(self.remove(owner), Some(State::Held(_)));
        if held {
            self.owners.insert(owner, State::Passing);
        }
        held
    }

    pub(crate) fn end_pass(&mut self, owner: u64) {
        if matches!(self.owners.get(&owner), Some(State::Passing)) {
            self.owners.remove(&owner);
        }
    }

    pub(crate) fn next_renewal(&self) -> Moment {
        self.renewals.first().map_or(Moment::NEVER, |first| first.0)
    }

    /// What is to be renewed, and what is over. The work grows with what is due, not with what is held.
    pub(crate) fn due_renewals(&mut self, now: Moment, horizon: Moment) -> Due {
        let mut due = Due::default();
        let ready: Vec<u64> =
            self.renewals.iter().take_while(|(at, _)| *at <= horizon).map(|(_, owner)| *owner).collect();
        for owner in ready {
            self.reschedule(owner, |held| match held.schedule.step(now) {
                Step::Over => due.over.push((held.record.clone(), held.record.expiry())),
                Step::LimitReached => due.over.push((held.record.clone(), LostReason::MaxHold)),
                Step::Wait(_) if held.schedule.step(horizon) != Step::Ask => {}
                // A little early is as good: it joins the batch.
                Step::Ask | Step::Wait(_) => due.asks.push(Renew {
                    keys: held.record.keys.clone(),
                    owner: held.record.owner,
                    lease: held.schedule.ask(now),
                }),
            });
        }
        due
    }

    /// A watchdog that begins anew has no requests under way.
    pub(crate) fn forget_asking(&mut self) {
        let owners: Vec<u64> = self.renewals.iter().map(|(_, owner)| *owner).collect();
        for owner in owners {
            self.reschedule(owner, |held| held.schedule.forget_asking());
        }
    }

    // Closing, and what tests ask.

    pub(crate) fn all_asking(&self) -> Vec<u64> {
        self.owners
            .iter()
            .filter(|(_, state)| matches!(state, State::Asking(_)))
            .map(|(owner, _)| *owner)
            .collect()
    }

    pub(crate) fn all_held(&self) -> Vec<Arc<Record>> {
        let held = self.owners.values().filter_map(|state| match state {
            State::Held(held) => Some(held.record.clone()),
            _ => None,
        });
        held.collect()
    }
}

#[derive(Default)]
pub(crate) struct Due {
    pub(crate) asks: Vec<Renew>,
    pub(crate) over: Vec<(Arc<Record>, LostReason)>,
}
