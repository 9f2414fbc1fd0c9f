//! Renewal and loss: what is held stays held, and what is lost is told, once and in time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says by panicking what is wrong")]

mod cancelled;
mod close;
mod dropped;
mod lost;
mod outage;
mod renewed;
mod support;
mod work;
