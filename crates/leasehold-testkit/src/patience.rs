//! The one place that scales waits.

use std::time::{Duration, Instant};

/// `bound`, times `LEASEHOLD_TEST_PATIENCE` (a number, 1 when unset) for machines slower than ours.
#[must_use]
pub fn patience(bound: Duration) -> Duration {
    let factor = std::env::var("LEASEHOLD_TEST_PATIENCE").ok().and_then(|text| text.parse::<f64>().ok());
    bound.mul_f64(factor.filter(|factor| factor.is_finite() && *factor > 0.0).unwrap_or(1.0))
}

/// Asks again and again until `check` says yes; every 5 ms, with one last look when the time is over.
///
/// # Panics
/// When `bound` (scaled by [`patience`]) has passed and `what` is still not so.
pub async fn eventually(what: &str, bound: Duration, mut check: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    let bound = patience(bound);
    loop {
        let last = start.elapsed() >= bound;
        if check().await {
            return;
        }
        assert!(!last, "not within {bound:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
