//! The one map of a client's owners, and what is due for them.
//!
//! Nothing here sends or sleeps: it is read and changed under one mutex, in short steps.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::task::Waker;

use super::asking::{Asking, Spec, Stage, Trace};
use super::record::Record;
use super::waited::WaitedLocks;
use crate::clock::Moment;
use crate::key::Keys;
use crate::lease::{Schedule, Step};
use crate::outcome::LostReason;
use crate::server::{Renew, Ticket};

/// The state of an owner. An owner in no state is gone.
pub(crate) enum State {
    /// Before its hold: a `take` of it is or was under way.
    Asking(Box<Asking>),
    Held(Held),
    /// Its pass is under way; news about it means nothing any more.
    Passing,
}

pub(crate) struct Held {
    pub(crate) record: Arc<Record>,
    pub(crate) schedule: Schedule,
    due: Moment,
}

#[derive(Default)]
pub(crate) struct Table {
    owners: HashMap<u64, State>,
    pub(crate) waited: WaitedLocks,
    renewals: BTreeSet<(Moment, u64)>,
    pub(crate) closing: bool,
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
            self.waited.enter(&spec.keys, ticket, owner);
        }
        self.owners.insert(owner, State::Asking(Box::new(Asking::new(spec, waits, ticket))));
    }

    /// Changes an asking owner's stage, and hands back whom to wake.
    pub(crate) fn turn(&mut self, owner: u64, stage: Stage) -> Option<Waker> {
        let Some(State::Asking(asking)) = self.owners.get_mut(&owner) else { return None };
        if asking.waits {
            let waits = matches!(stage, Stage::Waiting);
            self.waited.set_waiting(&asking.spec.keys, asking.ticket, owner, waits);
        }
        asking.stage = stage;
        asking.waker.take()
    }

    pub(crate) fn set_ticket(&mut self, owner: u64, ticket: Ticket) {
        let Some(State::Asking(asking)) = self.owners.get_mut(&owner) else { return };
        self.waited.set_ticket(&asking.spec.keys, asking.ticket, ticket, owner);
        asking.ticket = Some(ticket);
    }

    /// Takes an owner out, whatever its state.
    pub(crate) fn remove(&mut self, owner: u64) -> Option<State> {
        let state = self.owners.remove(&owner)?;
        match &state {
            State::Asking(asking) if asking.waits => {
                self.waited.leave(&asking.spec.keys, asking.ticket, owner);
            }
            State::Held(held) => {
                self.renewals.remove(&(held.due, owner));
            }
            _ => {}
        }
        Some(state)
    }

    // Checks.

    /// The oldest waiter that a `take` can be sent for, of a lock that is due for a check.
    pub(crate) fn due_check(&mut self, now: Moment, backstop: Moment) -> Option<u64> {
        loop {
            let keys = self.waited.pop_due(now, backstop)?;
            let ready = |owner: &u64| {
                let state = self.owners.get(owner);
                matches!(state, Some(State::Asking(asking)) if asking.is_idle() && asking.ticket.is_some())
            };
            let oldest = self.waited.waiters(&keys).find(ready);
            if oldest.is_some() {
                return oldest;
            }
        }
    }

    /// The next owner to enter a lost queue again.
    pub(crate) fn next_refill(&mut self, keys: &Keys) -> Option<u64> {
        loop {
            let owner = self.waited.pop_refill(keys)?;
            if self.asking(owner).is_some_and(|asking| asking.is_idle()) {
                return Some(owner);
            }
        }
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
            self.waited.set_unsure(&asking.spec.keys);
            asking.waker.take()
        });
        wakers.collect()
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

    // Closing.

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
