//! When a lease must be renewed, and when it is over. Pure: no clock and no I/O, `now` is an argument.

mod deadline;
mod schedule;

pub(crate) use deadline::{Margin, deadline};
pub(crate) use schedule::{Schedule, Step};

use std::time::Duration;

/// The shortest lease: below it a renewal, its retry and the margins do not fit.
pub(crate) const MIN_LEASE: Duration = Duration::from_millis(200);

/// The longest lease, and the longest `max_hold`-free fixed hold: as long as a fence counter lives.
pub(crate) const MAX_LEASE: Duration = Duration::from_secs(24 * 3600);

/// Whether a hold lives as long as its guard, or ends at its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Renewed,
    Fixed,
}

/// How long a hold that was handed over lives until it is claimed: a sixth of the lease, raised to
/// 1 s or cut to 5 s, never longer than the lease.
pub(crate) fn claim_time(lease: Duration) -> Duration {
    (lease / 6).clamp(Duration::from_secs(1), Duration::from_secs(5)).min(lease)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_times() {
        for (lease, claim) in [(200, 200), (1_000, 1_000), (6_000, 1_000), (12_000, 2_000), (60_000, 5_000)] {
            assert_eq!(claim_time(Duration::from_millis(lease)), Duration::from_millis(claim));
        }
    }
}
