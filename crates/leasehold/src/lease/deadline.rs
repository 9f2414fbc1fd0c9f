//! Until when a hold is certain to be ours, from what a reply said.

use std::time::Duration;

use crate::clock::Moment;

/// What is taken off the remaining time that a server told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Margin {
    /// For timers and tasks that run late. Never more than a tenth of what remains.
    pub(crate) safety: Duration,
}

/// `sent + 0.9·(remaining − 1 ms) − margin`: the moment from which the hold counts as over.
///
/// `sent` is when the *first* transmission of the request was queued. The script ran after it and
/// read `remaining` as it ran, so the key outlives this moment as long as the two clocks' rates
/// differ by at most a tenth (chrony slews by 8.3 %) and nobody deletes the key. The millisecond is
/// the server's rounding. Counting from a later transmission would be wrong: the reply cannot tell
/// which one won (two holders in a fault test of the design).
pub(crate) fn deadline(sent: Moment, remaining: Duration, margin: Margin) -> Moment {
    let certain = remaining.saturating_sub(Duration::from_millis(1)) * 9 / 10;
    sent + certain.saturating_sub(margin.safety.min(remaining / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARGIN: Margin = Margin { safety: Duration::from_millis(50) };

    #[test]
    fn margins_come_off() {
        let sent = Moment::from_micros(1_000_000);
        let at = |ms| deadline(sent, Duration::from_millis(ms), MARGIN).since(sent);
        assert_eq!(at(30_001), Duration::from_millis(26_950));
        assert_eq!(at(200), Duration::from_micros(159_100), "the safety margin is at most a tenth");
        assert_eq!(at(0), Duration::ZERO);
        assert_eq!(at(1), Duration::ZERO, "never before the request was sent");
    }
}
