//! The task that reads pushes and keeps one timer per waited lock.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::shared::Shared;
use super::table::State;
use super::take::TakeCall;
use crate::clock;
use crate::key::Keys;
use crate::outcome::LostReason;
use crate::owner::OwnerId;
use crate::server::Push;

/// Checks under way at once.
const CHECKS: usize = 64;

/// When a lock whose waiters are all busy is looked at again: their own outcomes come sooner.
const BACKSTOP: Duration = Duration::from_secs(1);

/// After a reconnect each waited lock is checked, at most 500 a second.
const PACE: Duration = Duration::from_millis(2);

pub(crate) async fn waits(
    shared: &Shared,
    pushes: &Mutex<mpsc::UnboundedReceiver<Push>>,
    stop: &CancellationToken,
) {
    let mut pushes = pushes.lock().await;
    let mut flights = FuturesUnordered::new();
    let mut refills = shared.table().waited.refilling();
    let mut open = true;
    loop {
        let wake = shared.table().waited.next_due();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some((call, answer)) = flights.next(), if !flights.is_empty() => shared.took(&call, answer),
            push = pushes.recv(), if open => match push {
                Some(push) => shared.pushed(push, &mut refills),
                None => open = false,
            },
            () = shared.checks.notified() => refills = shared.table().waited.refilling(),
            () = clock::sleep_until(wake), if flights.len() < CHECKS => {}
        }
        while flights.len() < CHECKS
            && let Some(call) = shared.next_take(&mut refills)
        {
            flights.push(async move {
                let answer = shared.send_take(&call).await;
                (call, answer)
            });
        }
    }
}

impl Shared {
    /// The next `take` that is due on behalf of a waiter.
    fn next_take(&self, refills: &mut Vec<Keys>) -> Option<TakeCall> {
        let now = clock::now();
        loop {
            let mut table = self.table();
            let owner = match table.due_check(now, now + BACKSTOP) {
                Some(owner) => owner,
                None => loop {
                    let keys = refills.last()?;
                    match table.next_refill(keys) {
                        Some(owner) => break owner,
                        None => drop(refills.pop()),
                    }
                },
            };
            drop(table);
            let call = self.begin_take(OwnerId { client: self.client, count: owner }, true, true);
            if call.is_some() {
                return call;
            }
        }
    }

    fn pushed(&self, push: Push, refills: &mut Vec<Keys>) {
        match push {
            Push::Grant(grant) => self.granted(&grant, None),
            Push::Evicted { lock, owner, token } => {
                let record = match self.table().get(owner.count) {
                    Some(State::Held(held)) if owner.client == self.client => Some(held.record.clone()),
                    _ => None,
                };
                if let Some(record) = record
                    && record.keys.name() == lock
                    && record.sequence() == token
                {
                    self.lose(&record, LostReason::Taken);
                }
            }
            Push::CounterBroken { lock, owner } => {
                warn!(lock, %owner, "the lock's fence counter cannot be used");
                self.check_now(|keys| keys.name() == lock);
            }
            Push::Missed => {
                debug!("pushes may have been missed; all waited locks are checked");
                self.table().waited.forget_refills();
                refills.clear();
                self.check_now(|_| true);
            }
        }
    }

    /// Checks the waited locks that `which` names, one after the other.
    fn check_now(&self, which: impl Fn(&Keys) -> bool) {
        let now = clock::now();
        let mut table = self.table();
        let locks = table.waited.keys();
        for (n, keys) in (0..).zip(locks.iter().filter(|keys| which(keys))) {
            table.waited.note_missed(keys, now);
            table.waited.arm_by(keys, now + PACE * n + self.chance.below(PACE));
        }
    }
}
