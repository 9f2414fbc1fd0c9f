//! The timetable of one hold.

use std::time::Duration;

use super::Kind;
use crate::clock::Moment;

/// The shortest pause between two tries.
const RETRY_MIN: Duration = Duration::from_millis(10);

/// What to do about a hold now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing before this moment.
    Wait(Moment),
    /// Ask the server: lengthen a renewed hold, look at a fixed one.
    Ask,
    /// The deadline has passed.
    Over,
    /// `max_hold` is reached.
    LimitReached,
}

/// Invariants: `next <= deadline` while no request is under way; the deadline only moves later, and
/// never once it has passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    kind: Kind,
    lease: Duration,
    deadline: Moment,
    limit: Moment,
    /// When the server is to be asked next.
    next: Moment,
    asking: bool,
    failures: u32,
}

impl Schedule {
    pub(crate) fn new(kind: Kind, lease: Duration, sent: Moment, deadline: Moment, limit: Moment) -> Self {
        let mut schedule =
            Self { kind, lease, deadline, limit, next: Moment::default(), asking: false, failures: 0 };
        schedule.plan(sent + lease / 3);
        schedule
    }

    pub(crate) fn step(&self, now: Moment) -> Step {
        if now >= self.limit {
            Step::LimitReached
        } else if now >= self.deadline {
            Step::Over
        } else if !self.asking && now >= self.next {
            Step::Ask
        } else {
            Step::Wait(self.wake())
        }
    }

    /// When [`step`](Self::step) has something new to say at the earliest.
    pub(crate) fn wake(&self) -> Moment {
        let end = self.deadline.min(self.limit);
        if self.asking { end } else { end.min(self.next) }
    }

    /// The request goes out now: what to ask the server for. A fixed hold asks for what it has by
    /// its own reckoning, which is less than the server's: that lengthens nothing, and gives a key
    /// back its expiry if somebody took it away.
    pub(crate) fn ask(&mut self, now: Moment) -> Duration {
        self.asking = true;
        match self.kind {
            Kind::Renewed => self.lease,
            Kind::Fixed => self.deadline.since(now).max(Duration::from_millis(1)),
        }
    }

    /// The server said "yours" to a request first sent at `sent`, good until `deadline`.
    pub(crate) fn answered(&mut self, sent: Moment, deadline: Moment) {
        self.asking = false;
        self.failures = 0;
        // An older answer may come later; it must not take back what a newer one gave.
        self.deadline = self.deadline.max(deadline);
        self.plan(sent + self.lease / 3);
    }

    /// A request ended without an answer: again soon, within what remains.
    pub(crate) fn failed(&mut self, now: Moment, delay: Duration) {
        self.asking = false;
        self.failures += 1;
        // A quarter of what remains at the most, but no faster than a server that refuses can bear.
        self.plan(now + delay.min(self.deadline.since(now) / 4).max(RETRY_MIN));
    }

    /// Nothing is under way any more, and nothing was learnt.
    pub(crate) fn forget_asking(&mut self) {
        self.asking = false;
    }

    /// The end was moved on purpose.
    pub(crate) fn extended(&mut self, sent: Moment, lease: Duration, deadline: Moment) {
        if self.kind == Kind::Fixed {
            // A shorter one moved nothing, and must not make the looks frequent.
            self.lease = self.lease.max(lease);
        }
        self.deadline = self.deadline.max(deadline);
        if !self.asking {
            self.plan(sent + self.lease / 3);
        }
    }

    fn plan(&mut self, at: Moment) {
        self.next = at.min(self.deadline);
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    pub(crate) fn deadline(&self) -> Moment {
        self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_micros(ms * 1_000)
    }

    fn renewed() -> Schedule {
        Schedule::new(Kind::Renewed, Duration::from_secs(3), at(0), at(2_600), Moment::NEVER)
    }

    #[test]
    fn asks_every_third_and_moves_the_deadline() {
        let mut hold = renewed();
        assert_eq!(hold.step(at(999)), Step::Wait(at(1_000)));
        assert_eq!(hold.step(at(1_000)), Step::Ask);
        assert_eq!(hold.ask(at(1_000)), Duration::from_secs(3));
        assert_eq!(hold.step(at(1_001)), Step::Wait(at(2_600)), "one request at a time");
        hold.answered(at(1_000), at(3_600));
        assert_eq!(hold.step(at(2_000)), Step::Ask, "a third after the request was sent");
        assert_eq!(hold.step(at(3_600)), Step::Over);
    }

    #[test]
    fn failures_are_retried_within_what_remains() {
        let mut hold = renewed();
        hold.ask(at(1_000));
        hold.failed(at(1_600), Duration::from_secs(60));
        assert_eq!(hold.step(at(1_849)), Step::Wait(at(1_850)), "a quarter of what remains at the most");
        assert_eq!(hold.step(at(1_850)), Step::Ask);
        assert_eq!(hold.step(at(2_600)), Step::Over, "the deadline has the last word");
    }

    #[test]
    fn an_older_answer_takes_nothing_back() {
        let mut hold = renewed();
        hold.answered(at(1_000), at(3_600));
        hold.answered(at(500), at(3_100));
        assert_eq!(hold.deadline(), at(3_600));
    }

    #[test]
    fn a_fixed_hold_is_looked_at_and_not_lengthened() {
        let mut hold = Schedule::new(Kind::Fixed, Duration::from_secs(3), at(0), at(2_600), Moment::NEVER);
        assert_eq!(hold.step(at(1_000)), Step::Ask);
        assert_eq!(hold.ask(at(1_000)), Duration::from_millis(1_600));
        hold.answered(at(1_000), at(2_600));
        assert_eq!(hold.step(at(2_600)), Step::Over);
        hold.extended(at(2_000), Duration::from_secs(6), at(7_000));
        assert_eq!(hold.step(at(2_600)), Step::Wait(at(4_000)));
        hold.extended(at(2_000), Duration::from_millis(200), at(2_170));
        assert_eq!(hold.step(at(2_600)), Step::Wait(at(4_000)), "a shorter one changes nothing");
    }

    #[test]
    fn max_hold_ends_a_renewed_hold() {
        let hold = Schedule::new(Kind::Renewed, Duration::from_secs(3), at(0), at(2_600), at(500));
        assert_eq!(hold.step(at(499)), Step::Wait(at(500)));
        assert_eq!(hold.step(at(500)), Step::LimitReached);
    }
}
