//! How long to wait before the next try.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Delays between tries: doubling from `first` to `cap`, with up to `jitter` added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) cap: Duration,
    pub(crate) jitter: Duration,
}

impl Backoff {
    /// The delay before retry number `retry` (from 0). The cap holds for the sum.
    pub(crate) fn delay(&self, retry: u32, chance: &Chance) -> Duration {
        let doubled = self.first.saturating_mul(1_u32 << retry.min(16));
        doubled.saturating_add(chance.below(self.jitter)).min(self.cap)
    }
}

/// Jitter, and nothing that must be hard to guess.
#[derive(Debug)]
pub(crate) struct Chance(AtomicU64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Evenly from zero up to `span`, exclusive; zero for a span of zero.
    pub(crate) fn below(&self, span: Duration) -> Duration {
        let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.next().checked_rem(span).unwrap_or(0))
    }

    /// `SplitMix64` (Steele, Lea, Flood 2014): one addition of state, so that callers may race.
    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut x = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_cap_and_never_pass_it() {
        let ms = Duration::from_millis;
        let chance = Chance::new(1);
        let steady = Backoff { first: ms(10), cap: ms(100), jitter: Duration::ZERO };
        let delays: Vec<_> = (0..6).map(|n| steady.delay(n, &chance)).collect();
        assert_eq!(delays, [ms(10), ms(20), ms(40), ms(80), ms(100), ms(100)]);
        let shaken = Backoff { jitter: ms(50), ..steady };
        assert!((0..1_000).all(|n| shaken.delay(n, &chance) <= ms(100)), "case_x48: the cap holds");
        let none = Backoff { first: Duration::ZERO, cap: Duration::ZERO, jitter: Duration::ZERO };
        assert_eq!(none.delay(u32::MAX, &chance), Duration::ZERO, "case_x30: zero is a delay");
    }
}
