//! The watchdog: one task per client renews what is due, in batches, and ends what is over.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;
use tracing::{debug, trace, warn};

use super::shared::Shared;
use super::table::Due;
use crate::clock::{self, Moment};
use crate::lease;
use crate::outcome::LostReason;
use crate::server::{Fault, Found, Mine, Renew, Why};

/// Names in one script call: 1.7 µs of the server's time each, so that a batch stalls nobody.
const BATCH: usize = 128;

/// What is due within this span is renewed with what is due now.
const HORIZON: Duration = Duration::from_millis(10);

/// The shortest time that a renewal waits for its answer.
const MIN_TIMEOUT: Duration = Duration::from_millis(50);

pub(crate) async fn watchdog(shared: &Shared, stop: &CancellationToken) {
    let mut flights = FuturesUnordered::new();
    loop {
        let wake = shared.table().next_renewal();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(flight) = flights.next(), if !flights.is_empty() => {
                for ask in settle(shared, flight) {
                    let timeout = timeout(&ask, shared.settings.command_timeout);
                    flights.push(send(shared, vec![ask], timeout));
                }
            }
            () = shared.renewals.notified() => {}
            () = clock::sleep_until(wake) => shared.lateness.note(wake, clock::now()),
        }
        let now = clock::now();
        let Due { asks, over } = shared.table().due_renewals(now, now + HORIZON);
        for (record, reason) in over {
            shared.lose(&record, reason);
        }
        for (timeout, batch) in batches(asks, shared.settings.command_timeout) {
            flights.push(send(shared, batch, timeout));
        }
    }
}

/// A batch that was sent, when, and what came of it.
struct Flight {
    batch: Vec<Renew>,
    sent: Moment,
    answers: Result<Vec<Result<Mine, Fault>>, Fault>,
}

async fn send(shared: &Shared, batch: Vec<Renew>, timeout: Duration) -> Flight {
    let sent = clock::now();
    let answers = shared.server.renew(&batch, timeout).await;
    Flight { batch, sent, answers }
}

/// How long an answer is waited for: a tenth of the lease, so that several tries fit into what remains.
fn timeout(ask: &Renew, command_timeout: Duration) -> Duration {
    (ask.lease / 10).max(MIN_TIMEOUT).min(command_timeout)
}

/// Holds that may wait equally long for their answer go together.
fn batches(asks: Vec<Renew>, command_timeout: Duration) -> Vec<(Duration, Vec<Renew>)> {
    let mut alike: BTreeMap<Duration, Vec<Renew>> = BTreeMap::new();
    for ask in asks {
        alike.entry(timeout(&ask, command_timeout)).or_default().push(ask);
    }
    let mut batches = Vec::new();
    for (timeout, mut asks) in alike {
        while asks.len() > BATCH {
            let rest = asks.split_off(BATCH);
            batches.push((timeout, std::mem::replace(&mut asks, rest)));
        }
        batches.push((timeout, asks));
    }
    batches
}

/// Takes the answers in. A batch that is refused for good is handed back, to be asked for name by
/// name: what one name lacks, a permission, refuses all of it.
fn settle(shared: &Shared, Flight { batch, sent, answers }: Flight) -> Vec<Renew> {
    let refused = matches!(&answers, Err(fault) if !fault.is_temporary() && fault.why != Why::Closed);
    if refused && batch.len() > 1 {
        return batch;
    }
    let answers = match answers {
        Ok(answers) if answers.len() == batch.len() => answers,
        Ok(_) => vec![Err(Fault::garbled("renew")); batch.len()],
        Err(fault) => vec![Err(fault); batch.len()],
    };
    for (ask, answer) in batch.iter().zip(answers) {
        shared.renewed(ask, sent, answer);
    }
    Vec::new()
}

impl Shared {
    /// Takes in the answer to a renewal, or to a look at a fixed hold.
    pub(crate) fn renewed(&self, ask: &Renew, sent: Moment, answer: Result<Mine, Fault>) {
        let now = clock::now();
        let lock = ask.keys.name();
        let owner = ask.owner;
        let margin = self.margin(now);
        let delay = |failures| self.settings.backoff.delay(failures, &self.chance);
        let lost = self.table().reschedule(owner.count, |held| {
            let record = held.record.clone();
            if now >= held.schedule.deadline() {
                // Too late to count, whatever the answer is: it was told, or is told now.
                return Some((record.clone(), record.expiry()));
            }
            match answer {
                Ok(Mine::Yes { token, remaining }) => {
                    let deadline = lease::deadline(sent, remaining, margin);
                    held.schedule.answered(sent, deadline);
                    record.renewed(token, deadline);
                    trace!(lock, %owner, token, ?remaining, "renewed");
                    None
                }
                Ok(Mine::No(Found::Absent)) => Some((record, LostReason::Gone)),
                Ok(Mine::No(Found::Other | Found::Foreign)) => Some((record, LostReason::Taken)),
                Err(fault) => {
                    held.schedule.failed(now, delay(held.schedule.failures()));
                    record.at_risk(now, held.schedule.kind());
                    let remaining = record.deadline().since(now);
                    if held.schedule.failures() == 1 {
                        warn!(lock, %owner, ?remaining, %fault, "a renewal failed; the hold is at risk");
                    } else {
                        debug!(lock, %owner, ?remaining, %fault, "a renewal failed again");
                    }
                    None
                }
            }
        });
        if let Some(Some((record, reason))) = lost {
            self.lose(&record, reason);
        }
    }
}

/// How late this client's timers fire: the greatest of the last half to whole minute. A late timer
/// is time that a deadline cannot count on.
#[derive(Debug, Default)]
pub(crate) struct Lateness(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    began: Moment,
    now: Duration,
    before: Duration,
}

const WINDOW: Duration = Duration::from_secs(30);

impl Lateness {
    fn note(&self, due: Moment, now: Moment) {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        window.turn(now);
        window.now = window.now.max(now.since(due));
    }

    pub(crate) fn greatest(&self, now: Moment) -> Duration {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        window.turn(now);
        window.now.max(window.before)
    }
}

impl Window {
    fn turn(&mut self, now: Moment) {
        let age = now.since(self.began);
        if age >= WINDOW {
            self.before = if age < WINDOW * 2 { self.now } else { Duration::ZERO };
            self.now = Duration::ZERO;
            self.began = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_forgotten_after_a_minute() {
        let at = |s: u64| Moment::from_micros(s * 1_000_000);
        let late = Lateness::default();
        late.note(at(100), at(101));
        assert_eq!(late.greatest(at(120)), Duration::from_secs(1));
        assert_eq!(late.greatest(at(140)), Duration::from_secs(1));
        assert_eq!(late.greatest(at(201)), Duration::ZERO);
    }
}
