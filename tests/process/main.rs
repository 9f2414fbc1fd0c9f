//! Real processes: holders that are stopped, killed and asked to end.

mod actor;
mod ended;
mod stopped;
mod story;
