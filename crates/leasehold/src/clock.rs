//! The one clock that decides: monotonic, and counting the time that the machine was suspended.

use std::ops::Add;
use std::time::Duration;

/// A reading of the client's clock: microseconds since it started. Never compared with a server's.
///
/// `std::time::Instant` stops while a laptop or a guest sleeps (`CLOCK_MONOTONIC`), and a lease that
/// ended in the meantime would look alive. A wall clock can be set. So: `CLOCK_BOOTTIME`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Later than every reading.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    pub(crate) const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    pub(crate) const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to here; zero if it is not earlier.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Reads the clock.
#[cfg(target_os = "linux")]
pub(crate) fn now() -> Moment {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(at.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(at.tv_nsec).unwrap_or(0);
    Moment(seconds * 1_000_000 + nanos / 1_000)
}

/// Reads the clock. Off Linux it is `Instant`, which counts suspend on Windows and not on macOS.
#[cfg(not(target_os = "linux"))]
pub(crate) fn now() -> Moment {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    Moment(micros(START.elapsed()))
}

/// Sleeps until `at`; a suspended machine may wake late, so whoever sleeps looks at the clock again.
pub(crate) async fn sleep_until(at: Moment) {
    if at == Moment::NEVER {
        return std::future::pending().await;
    }
    // A day at the most: tokio's timer refuses spans near its own end, and a caller loops anyway.
    tokio::time::sleep(at.since(now()).min(Duration::from_secs(86_400))).await;
}
