//! Real processes: holders that are stopped, killed and asked to end.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says by panicking what is wrong")]

mod actor;
mod ended;
mod stopped;
mod story;
