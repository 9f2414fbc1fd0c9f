//! When a connection that stands is given up because nothing comes back. TCP would need minutes.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Calls one after the other without a reply.
const CALLS: u32 = 3;

/// Calls that were under way together are one sign, not many; and renewals of short leases wait for
/// their answers for less than a server may stall without being gone. So: a call counts if it began
/// behind the last one that counted, and the silence must last for a whole command time-out.
#[derive(Debug, Default)]
pub(super) struct Silence(Mutex<Option<Calls>>);

#[derive(Debug, Clone, Copy)]
struct Calls {
    count: u32,
    began: Instant,
    last: Instant,
}

impl Silence {
    /// A call that began at `started` was not answered by `now`. True if the connection is to be
    /// given up.
    pub(super) fn note(&self, started: Instant, now: Instant, at_least: Duration) -> bool {
        let mut silence = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = silence.get_or_insert(Calls { count: 0, began: started, last: started });
        if calls.count == 0 || started >= calls.last {
            calls.count += 1;
            calls.last = now;
        }
        calls.count >= CALLS && now.duration_since(calls.began) >= at_least
    }

    /// Something came back, or the connection is a new one.
    pub(super) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_under_way_together_are_one_sign() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let second = Duration::from_secs(1);
        let silence = Silence::default();
        for _ in 0..12 {
            assert!(!silence.note(at(0), at(100), second));
        }
        assert!(!silence.note(at(100), at(200), second));
        assert!(!silence.note(at(200), at(300), second), "three in a row, but a stall may be that long");
        assert!(silence.note(at(950), at(1_050), second));
        silence.end();
        assert!(!silence.note(at(1_000), at(2_000), second), "one call is never enough");
        assert!(!silence.note(at(2_000), at(3_000), second));
        assert!(silence.note(at(3_000), at(4_000), second));
    }
}
