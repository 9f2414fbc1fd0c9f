//! How patient the connections are.

use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Tuning {
    /// For one attempt to connect, log in and be greeted.
    pub(crate) connect_timeout: Duration,
    /// For what the connections ask on their own: probes, confirmations. Calls bring their own.
    pub(crate) command_timeout: Duration,
    /// Before the first attempt to connect again; doubled for each further one.
    pub(crate) retry_delay: Duration,
    /// The longest such delay.
    pub(crate) retry_cap: Duration,
    /// Added at random to each delay, so that many clients do not come back at once.
    pub(crate) retry_jitter: Duration,
    /// How often a push connection that may be silent is asked whether it lives.
    pub(crate) probe_every: Duration,
    /// How long a lock's counter outlives its last token. Zero: plain numbering, kept for ever.
    pub(crate) fence_ttl: Duration,
    /// Shown in `CLIENT LIST` behind `leasehold-`; the client's uuid where there is none.
    pub(crate) label: Option<String>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            command_timeout: Duration::from_secs(2),
            retry_delay: Duration::from_millis(20),
            retry_cap: Duration::from_secs(1),
            retry_jitter: Duration::from_millis(20),
            probe_every: Duration::from_secs(5),
            // Longer than any lease and any clock error; short enough that a million names that
            // were locked once do not stay (90 bytes each).
            fence_ttl: Duration::from_secs(24 * 60 * 60),
            label: None,
        }
    }
}

/// Whole milliseconds, rounded up: a time that is rounded down is shorter than what was asked.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
