//! How a `take` is sent and its answer taken in, whoever sends it: a caller, or a check.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use tracing::{debug, trace, warn};

use super::asking::{Spec, Stage, Trace};
use super::release::Job;
use super::shared::Shared;
use super::table::Table;
use crate::busy::Busy;
use crate::clock::{self, Moment};
use crate::key::Keys;
use crate::lease;
use crate::owner::OwnerId;
use crate::server::{Contention, Fault, Holder, Mode, Remaining, Reply, Subscribers, Take, Taken};

/// The longest time between two checks of a waited lock.
const CHECK_MAX: Duration = Duration::from_secs(30);

/// The shortest: however short the leases of others are, no loop spins.
const CHECK_MIN: Duration = Duration::from_millis(50);

/// Spreads the checks of many clients that were told the same time.
const CHECK_JITTER: Duration = Duration::from_millis(150);

/// One `take` on its way.
pub(crate) struct TakeCall {
    owner: OwnerId,
    spec: Arc<Spec>,
    mode: Mode,
    sent: Moment,
    was_queued: bool,
}

impl Shared {
    /// Notes that a `take` of this owner goes out. `None` when the owner is gone, when there is news
    /// for it, or when one is under way already, whose answer is as good: of two, the later answer
    /// would find an owner that holds. `checks`: it is the task `waits` that sends it.
    pub(crate) fn begin_take(&self, owner: OwnerId, waits: bool, checks: bool) -> Option<TakeCall> {
        let mut table = self.table();
        let asking = table.asking(owner.count)?;
        if !asking.is_idle() {
            return None;
        }
        // Twice the same question without an answer in between: either may be the one that won.
        let asked = if asking.first_sent.is_some() { Trace::Unknown } else { Trace::Known };
        asking.trace = asking.trace.max(asked);
        let sent = *asking.first_sent.get_or_insert_with(clock::now);
        asking.in_flight += 1;
        asking.checked = checks;
        let mode = if waits { Mode::Wait(asking.ticket) } else { Mode::Try };
        Some(TakeCall { owner, spec: asking.spec.clone(), mode, sent, was_queued: asking.queued })
    }

    pub(crate) async fn send_take(&self, call: &TakeCall) -> Result<Reply<Taken>, Fault> {
        let spec = &*call.spec;
        let take = Take {
            keys: &spec.keys,
            owner: call.owner,
            lease: spec.lease,
            claim: lease::claim_time(spec.lease),
            mode: call.mode,
            check_max: CHECK_MAX,
            who: &spec.who,
        };
        self.server.take(take, self.settings.command_timeout).await
    }

    /// Takes in the answer to a `take`, whoever sent it.
    pub(crate) fn took(&self, call: &TakeCall, answer: Result<Reply<Taken>, Fault>) {
        let keys = &call.spec.keys;
        let count = call.owner.count;
        let now = clock::now();
        let mut table = self.table();
        // The check that a missed push asks for could not be sent beside this one.
        let stale = table.waited.missed_since(keys, call.sent);
        let lost_news = match &answer {
            Ok(Reply { body: Taken::Queued { missing, .. }, .. }) => {
                *missing && table.asking(count).is_none()
            }
            Ok(_) => false,
            Err(_) => true,
        };
        if lost_news && call.was_queued {
            table.waited.set_unsure(keys);
        }
        let Some(asking) = table.asking(count) else {
            let gone = table.get(count).is_none();
            drop(table);
            if let Ok(Reply { body: Taken::Held { .. }, .. }) = answer
                && gone
            {
                // It left while this was under way. Its pass came behind, but once more is cheap.
                self.pass_later(Job::of_owner(keys, call.owner, true, call.spec.lease));
            }
            return;
        };
        asking.in_flight -= 1;
        let mut repair = false;
        let mut due = None;
        let (waker, grant) = match answer {
            Ok(Reply { at, grant, body }) => {
                asking.fault = None;
                if asking.in_flight == 0 {
                    asking.first_sent = None;
                }
                trace!(lock = keys.name(), owner = %call.owner, ?body, "take answered");
                let waker = match body {
                    Taken::Held { token, remaining, unclaimed } => {
                        table.turn(count, Stage::Won { sent: call.sent, token, remaining, unclaimed })
                    }
                    Taken::Queued { ticket, place, missing, subscribers, seen } => {
                        asking.queued = matches!(asking.stage, Stage::Waiting);
                        let hopeless = hopeless(&seen);
                        due = Some(now + if stale { CHECK_MIN } else { self.check_after(&seen, keys) });
                        asking.seen = Some(Busy::new(seen, at, Some(place + 1)));
                        repair = subscribers == Subscribers::Count(0);
                        table.set_ticket(count, ticket);
                        let lost = table.waited.take_unsure(keys) || (missing && call.was_queued);
                        if lost && table.waited.refill(keys, count) {
                            self.checks.notify_one();
                        }
                        news(&mut table, count, hopeless)
                    }
                    Taken::Busy(seen) => {
                        // A try that was answered left nothing: its end sends nothing.
                        let alone = asking.in_flight == 0 && asking.ticket.is_none();
                        if alone && asking.trace == Trace::Known {
                            asking.trace = Trace::None;
                        }
                        let hopeless = hopeless(&seen);
                        asking.seen = Some(Busy::new(seen, at, None));
                        news(&mut table, count, hopeless)
                    }
                    Taken::Void => table.turn(count, Stage::Void),
                };
                (waker, grant)
            }
            Err(fault) => {
                if fault.may_have_run {
                    asking.trace = Trace::Unknown;
                }
                asking.fault = Some(fault.clone());
                if !fault.may_have_run && asking.in_flight == 0 {
                    asking.first_sent = None;
                }
                // Who has a ticket keeps it through a full server and any outage.
                let keeps = asking.ticket.is_some() && (fault.is_temporary() || fault.is_full());
                let waker = if keeps || !matches!(asking.stage, Stage::Waiting) {
                    due = Some(now + self.settings.backoff.cap.max(CHECK_MIN));
                    debug!(lock = keys.name(), owner = %call.owner, %fault, "a check failed");
                    asking.waker.take()
                } else {
                    table.turn(count, Stage::Failed(fault))
                };
                (waker, None)
            }
        };
        if let Some(due) = due
            && table.waited.arm(keys, due)
        {
            self.checks.notify_one();
        }
        drop(table);
        if let Some(waker) = waker {
            waker.wake();
        }
        if repair {
            self.listening.store(false, Ordering::Release);
            self.server.repair();
        }
        if let Some(grant) = grant {
            self.granted(&grant, Some(call.sent));
        }
    }

    /// How long until a lock with such a holder is checked again.
    fn check_after(&self, seen: &Contention, keys: &Keys) -> Duration {
        let told = match seen.remaining {
            Remaining::For(span) => span,
            Remaining::Undecided => Duration::ZERO,
            Remaining::NoExpiry => {
                warn!(lock = keys.name(), "the holder's record has no expiry; waiting for its release");
                CHECK_MAX
            }
        };
        self.check_in(told)
    }

    /// The told time and a jitter, within the bounds.
    pub(crate) fn check_in(&self, told: Duration) -> Duration {
        (told + self.chance.below(CHECK_JITTER)).clamp(CHECK_MIN, CHECK_MAX)
    }
}

/// Lets an asking owner's task look again: at a hopeless lock, or at what was just learnt.
fn news(table: &mut Table, owner: u64, hopeless: Option<&'static str>) -> Option<Waker> {
    match hopeless {
        Some(why) => table.turn(owner, Stage::Hopeless(why)),
        None => table.asking(owner).and_then(|asking| asking.waker.take()),
    }
}

/// Why no lock client waits behind this, if it is so: a record that is no lock, or one that never
/// ends and whose owner we cannot know to be alive.
fn hopeless(seen: &Contention) -> Option<&'static str> {
    match (&seen.holder, seen.remaining) {
        (Some(Holder::Foreign { kind, .. }), _) if kind != "hash" => {
            Some("the name holds a value that is no lock of this library or of Redisson")
        }
        (Some(Holder::Foreign { .. }), Remaining::NoExpiry) => {
            Some("the name holds a foreign record without an expiry, which nobody may ever release")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;
    use crate::backoff::Backoff;
    use crate::hold::seat::{Seat, Won};
    use crate::hold::{Core, Settings};
    use crate::lease::Kind;
    use crate::outcome::HoldState;
    use crate::server::{Call, Claim, Looked, Mine, Pass, Passed, Renew, Server, ServerTime};

    /// Hears everything and says nothing.
    struct Mute;

    impl Server for Mute {
        fn take<'a>(&'a self, _: Take<'a>, _: Duration) -> Call<'a, Reply<Taken>> {
            Box::pin(std::future::pending())
        }
        fn claim<'a>(&'a self, _: Claim<'a>, _: Duration) -> Call<'a, Reply<Mine>> {
            Box::pin(std::future::pending())
        }
        fn renew<'a>(&'a self, _: &'a [Renew], _: Duration) -> Call<'a, Vec<Result<Mine, Fault>>> {
            Box::pin(std::future::pending())
        }
        fn pass<'a>(&'a self, _: Pass<'a>, _: Duration) -> Call<'a, Reply<Passed>> {
            Box::pin(std::future::pending())
        }
        fn look<'a>(&'a self, _: &'a Keys, _: Duration) -> Call<'a, Looked> {
            Box::pin(std::future::pending())
        }
        fn listen(&self, _: Duration) -> Call<'_, ()> {
            Box::pin(std::future::pending())
        }
        fn repair(&self) {}
        fn close(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            Box::pin(std::future::ready(()))
        }
        fn address(&self) -> &'static str {
            "nowhere"
        }
    }

    /// A check and the owner's own `take` are never both under way; if they were, and both found the
    /// hold, the later answer would change nothing.
    #[tokio::test]
    async fn the_second_answer_passes_no_live_hold() {
        let (_pushes, received) = tokio::sync::mpsc::unbounded_channel();
        let backoff = Backoff { first: Duration::ZERO, cap: Duration::ZERO, jitter: Duration::ZERO };
        let settings = Settings { command_timeout: Duration::from_secs(1), backoff, margin: Duration::ZERO };
        let core = Core::start(Arc::new(Mute), received, uuid::Uuid::nil(), settings);
        let lease = Duration::from_secs(30);
        let keys = Keys::new("", "a").unwrap();
        let spec =
            Arc::new(Spec { keys, lease, kind: Kind::Renewed, max_hold: None, who: "p1@host/".to_owned() });
        let mut seat = Seat::enter(&core.shared, &spec, true).unwrap();
        let call = core.shared.begin_take(seat.owner, true, false).unwrap();
        assert!(core.shared.begin_take(seat.owner, true, true).is_none(), "one at a time");
        let held = || {
            let body = Taken::Held { token: 7, remaining: lease, unclaimed: false };
            Ok(Reply { at: ServerTime(1), grant: None, body })
        };
        core.shared.took(&call, held());
        let Stage::Won { sent, token, remaining, .. } = seat.stage() else { panic!("not won") };
        let Ok(Won::Held(record)) = seat.hold(sent, token, remaining) else { panic!("not held") };
        core.shared.took(&call, held());
        assert_eq!(core.shared.stand(&record), HoldState::Safe);
        let idle = tokio::time::timeout(Duration::from_millis(100), core.shared.janitor.idle());
        assert!(idle.await.is_ok(), "a pass of a live hold is under way");
    }
}
