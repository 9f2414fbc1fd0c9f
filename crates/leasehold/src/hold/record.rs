//! What guard, watchdog and onlookers share about one hold.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use leasehold_fencing::{MalformedToken, Token};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::Moment;
use crate::key::Keys;
use crate::lease::Kind;
use crate::outcome::{HoldState, LostReason};
use crate::owner::OwnerId;

const SAFE: u8 = 0;
const AT_RISK: u8 = 1;
const RELEASED: u8 = 2;
/// Lost: this plus the reason's number.
const LOST: u8 = 16;

const REASONS: [LostReason; 6] = [
    LostReason::Expired,
    LostReason::Unreachable,
    LostReason::Taken,
    LostReason::Gone,
    LostReason::MaxHold,
    LostReason::Closed,
];

/// Invariants: `standing` leaves `SAFE` and `AT_RISK` once, for ever; `deadline` only grows.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) keys: Keys,
    pub(crate) owner: OwnerId,
    /// A `take` of this owner was sent twice, or its outcome was unknown: the pass that ends it
    /// leaves a tombstone.
    pub(crate) unsure: bool,
    pub(crate) since: Moment,
    token: Mutex<Token>,
    deadline: AtomicU64,
    standing: AtomicU8,
    renewal_failed: AtomicBool,
    guards: AtomicUsize,
    ended: Notify,
    /// Made when somebody asks: most holds are watched through their guard alone.
    states: OnceLock<watch::Sender<HoldState>>,
    cancel: OnceLock<CancellationToken>,
}

impl Record {
    pub(crate) fn new(
        keys: Keys,
        owner: OwnerId,
        sequence: u64,
        since: Moment,
        deadline: Moment,
    ) -> Result<Self, MalformedToken> {
        let token = Token::new(keys.shared_name(), sequence, owner.holder())?;
        Ok(Self {
            keys,
            owner,
            unsure: false,
            since,
            token: Mutex::new(token),
            deadline: AtomicU64::new(deadline.as_micros()),
            standing: AtomicU8::new(SAFE),
            renewal_failed: AtomicBool::new(false),
            guards: AtomicUsize::new(1),
            ended: Notify::new(),
            states: OnceLock::new(),
            cancel: OnceLock::new(),
        })
    }

    pub(crate) fn token(&self) -> Token {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).sequence()
    }

    pub(crate) fn deadline(&self) -> Moment {
        Moment::from_micros(self.deadline.load(Ordering::Acquire))
    }

    /// The server confirmed the hold in time.
    pub(crate) fn renewed(&self, sequence: u64, deadline: Moment) {
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        // An older answer may arrive later, and changes nothing.
        if sequence > token.sequence()
            && let Ok(newer) = Token::new(self.keys.shared_name(), sequence, self.owner.holder())
        {
            *token = newer;
        }
        drop(token);
        self.deadline.fetch_max(deadline.as_micros(), Ordering::AcqRel);
        self.renewal_failed.store(false, Ordering::Release);
        if self.standing.compare_exchange(AT_RISK, SAFE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.publish(Moment::default());
        }
    }

    /// The server could not be asked. A fixed hold ends at its time all the same, and by that alone.
    pub(crate) fn at_risk(&self, now: Moment, kind: Kind) {
        self.renewal_failed.store(kind == Kind::Renewed, Ordering::Release);
        if self.standing.compare_exchange(SAFE, AT_RISK, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.publish(now);
        }
    }

    /// Why a deadline that has passed did pass.
    pub(crate) fn expiry(&self) -> LostReason {
        if self.renewal_failed.load(Ordering::Acquire) {
            LostReason::Unreachable
        } else {
            LostReason::Expired
        }
    }

    /// Ends the hold as lost. True for the one call that did it.
    pub(crate) fn latch(&self, reason: LostReason) -> bool {
        let number = REASONS.iter().position(|known| *known == reason).unwrap_or(0);
        self.leave(LOST + u8::try_from(number).unwrap_or(0))
    }

    /// Ends the hold as released. True for the one call that did it.
    pub(crate) fn end(&self) -> bool {
        self.leave(RELEASED)
    }

    fn leave(&self, to: u8) -> bool {
        self.standing
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| (now <= AT_RISK).then_some(to))
            .is_ok()
    }

    pub(crate) fn state(&self, now: Moment) -> HoldState {
        match self.standing.load(Ordering::Acquire) {
            SAFE => HoldState::Safe,
            AT_RISK => HoldState::AtRisk { remaining: self.deadline().since(now) },
            RELEASED => HoldState::Released,
            lost => HoldState::Lost(REASONS[usize::from(lost - LOST) % REASONS.len()]),
        }
    }

    pub(crate) fn lost_reason(&self) -> Option<LostReason> {
        match self.state(Moment::default()) {
            HoldState::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.standing.load(Ordering::Acquire) <= AT_RISK
    }

    /// Tells everyone who watches. Called once, by whoever ended the hold.
    pub(crate) fn tell(&self) {
        self.publish(Moment::default());
        self.ended.notify_waiters();
        if let (Some(cancel), Some(_)) = (self.cancel.get(), self.lost_reason()) {
            cancel.cancel();
        }
    }

    /// Ends when the hold is lost; never, if it is released first.
    pub(crate) async fn lost(&self) -> LostReason {
        loop {
            // Registered before the look, so that a loss in between is not missed.
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if let Some(reason) = self.lost_reason() {
                return reason;
            }
            ended.await;
        }
    }

    pub(crate) fn states(&self, now: Moment) -> watch::Receiver<HoldState> {
        let states = self.states.get_or_init(|| watch::Sender::new(self.state(now)));
        // It may have moved between the look and the watch's first day.
        self.publish(now);
        states.subscribe()
    }

    pub(crate) fn cancellation_token(&self) -> CancellationToken {
        let cancel = self.cancel.get_or_init(CancellationToken::new);
        if self.lost_reason().is_some() {
            cancel.cancel();
        }
        cancel.clone()
    }

    /// The state is read under the watch's own lock: whoever publishes last publishes the latest.
    fn publish(&self, now: Moment) {
        if let Some(states) = self.states.get() {
            states.send_if_modified(|old| {
                let state = self.state(now);
                // A late word about a hold that has ended changes nothing.
                let known = *old == state || (old.is_at_risk() && state.is_at_risk());
                let news = !known && !old.is_lost() && *old != HoldState::Released;
                if news {
                    *old = state;
                }
                news
            });
        }
    }

    /// One more guard, if there is still one.
    pub(crate) fn join(&self) -> bool {
        self.guards
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| (count > 0).then(|| count + 1))
            .is_ok()
    }

    /// One guard less. True for the last one.
    pub(crate) fn part(&self) -> bool {
        self.guards.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let owner = OwnerId { client: uuid::Uuid::nil(), count: 1 };
        Record::new(Keys::new("", "a").unwrap(), owner, 7, Moment::default(), Moment::from_micros(100))
            .unwrap()
    }

    #[test]
    fn loss_is_for_ever_and_told_once() {
        let hold = record();
        let states = hold.states(Moment::default());
        assert!(hold.latch(LostReason::Gone));
        assert!(!hold.latch(LostReason::Taken) && !hold.end(), "the first reason stays");
        hold.tell();
        hold.renewed(9, Moment::from_micros(1_000));
        assert_eq!(hold.state(Moment::default()), HoldState::Lost(LostReason::Gone));
        assert_eq!(*states.borrow(), HoldState::Lost(LostReason::Gone));
        assert!(hold.cancellation_token().is_cancelled());
    }

    #[test]
    fn risk_comes_and_goes() {
        let hold = record();
        hold.at_risk(Moment::from_micros(40), Kind::Renewed);
        assert!(hold.state(Moment::from_micros(40)).is_at_risk());
        assert_eq!(hold.expiry(), LostReason::Unreachable);
        hold.renewed(7, Moment::from_micros(200));
        assert_eq!(hold.state(Moment::default()), HoldState::Safe);
        assert_eq!(hold.expiry(), LostReason::Expired);
        assert_eq!(hold.deadline(), Moment::from_micros(200));
    }

    #[test]
    fn the_last_guard_is_the_last() {
        let hold = record();
        assert!(hold.join());
        assert!(!hold.part() && hold.part());
        assert!(!hold.join(), "nobody re-enters a hold without guards");
    }

    #[tokio::test]
    async fn a_released_hold_is_never_lost() {
        let hold = record();
        assert!(hold.end());
        hold.tell();
        tokio::select! {
            biased;
            reason = hold.lost() => panic!("{reason}"),
            () = tokio::task::yield_now() => {}
        }
        assert!(!hold.cancellation_token().is_cancelled());
    }
}
