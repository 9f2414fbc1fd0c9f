//! Options and their limits. What is out of bounds is refused when it is given, before any command.

use std::time::Duration;

use crate::lease::{MAX_LEASE, MIN_LEASE};

/// The default lease of a renewed hold: renewed every 10 s, so that two renewals can be lost.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// Why a lease is refused, if it is.
pub(crate) fn check_lease(lease: Duration) -> Result<(), String> {
    if lease < MIN_LEASE {
        Err(format!("a lease of {lease:?} is too short; the shortest is {MIN_LEASE:?}"))
    } else if lease > MAX_LEASE {
        Err(format!("a lease of {lease:?} is too long; the longest is {MAX_LEASE:?}"))
    } else {
        Ok(())
    }
}

/// Why a time to wait is refused, if it is.
pub(crate) fn check_wait(within: Duration) -> Result<(), String> {
    if within.is_zero() { Err("a wait of zero never waits; use `try_acquire`".to_owned()) } else { Ok(()) }
}

/// Why a longest hold is refused, if it is.
pub(crate) fn check_max_hold(limit: Duration) -> Result<(), String> {
    if limit < MIN_LEASE {
        Err(format!("a longest hold of {limit:?} is too short; the shortest is {MIN_LEASE:?}"))
    } else {
        Ok(())
    }
}

/// Why a time-out is refused, if it is.
pub(crate) fn check_timeout(what: &str, timeout: Duration) -> Result<(), String> {
    const MIN: Duration = Duration::from_millis(10);
    const MAX: Duration = Duration::from_secs(60);
    if (MIN..=MAX).contains(&timeout) {
        Ok(())
    } else {
        Err(format!("a {what} of {timeout:?} is out of bounds; it must be within {MIN:?} and {MAX:?}"))
    }
}

/// Why retry times are refused, if they are.
pub(crate) fn check_retry(delay: Duration, cap: Duration, jitter: Duration) -> Result<(), String> {
    const MAX: Duration = Duration::from_secs(60);
    if delay > cap {
        Err(format!("the retry delay {delay:?} is above its cap {cap:?}"))
    } else if cap > MAX || jitter > MAX {
        Err(format!(
            "a retry cap of {cap:?} with a jitter of {jitter:?} is out of bounds; at most {MAX:?} each"
        ))
    } else {
        Ok(())
    }
}

/// Why a safety margin is refused, if it is.
pub(crate) fn check_margin(margin: Duration) -> Result<(), String> {
    const MAX: Duration = Duration::from_secs(10);
    if margin > MAX {
        Err(format!("a safety margin of {margin:?} is too large; at most {MAX:?}"))
    } else {
        Ok(())
    }
}
