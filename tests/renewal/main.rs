//! Renewal and loss: what is held stays held, and what is lost is told, once and in time.

mod cancelled;
mod close;
mod dropped;
mod lost;
mod outage;
mod renewed;
mod support;
mod work;
