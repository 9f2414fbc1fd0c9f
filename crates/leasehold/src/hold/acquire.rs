//! One try.

use std::sync::Arc;
use std::time::Duration;

use tracing::debug;

use super::asking::Phase;
use super::record::Record;
use super::seat::{Seat, Won};
use super::shared::Shared;
use crate::busy::Busy;
use crate::error::Error;
use crate::key::Keys;
use crate::lease::Kind;
use crate::server::Fault;

/// Transmissions of one try before its caller is told.
const TRIES: u32 = 3;

/// What an acquisition asks for.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) keys: Keys,
    pub(crate) lease: Duration,
    pub(crate) kind: Kind,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) who: String,
}

pub(crate) enum Tried {
    Held(Arc<Record>),
    Busy(Busy),
}

/// Takes the lock or says who has it. Never waits for a turn.
pub(crate) async fn attempt(shared: &Arc<Shared>, spec: &Arc<Spec>) -> Result<Tried, Error> {
    let mut seat = Seat::enter(shared, spec, false)?;
    let mut retry = 0;
    loop {
        seat.take().await;
        match seat.phase() {
            Phase::Waiting => {
                return match seat.seen() {
                    Some(busy) => Ok(Tried::Busy(busy)),
                    None => Err(seat.error(Fault::garbled("take"))),
                };
            }
            Phase::Won { sent, token, remaining, unclaimed } => {
                match seat.won(sent, token, remaining, unclaimed).await? {
                    Won::Held(record) => return Ok(Tried::Held(record)),
                    Won::Stale if retry + 1 < TRIES => seat.settle(),
                    Won::TooLate if retry + 1 < TRIES => seat.start_over()?,
                    Won::TooLate | Won::Stale | Won::NotOurs => return Err(seat.too_late()),
                }
            }
            Phase::Failed(fault) if fault.is_temporary() && retry + 1 < TRIES => {
                debug!(lock = spec.keys.name(), owner = %seat.owner, %fault, retry, "a try failed");
                tokio::time::sleep(shared.settings.backoff.delay(retry, &shared.chance)).await;
                seat.settle();
            }
            Phase::Failed(fault) => return Err(seat.error(fault)),
            Phase::Hopeless(why) => return Err(seat.hopeless(why)),
            Phase::Closed => return Err(seat.closed()),
            Phase::Void | Phase::Granted { .. } => seat.start_over()?,
        }
        retry += 1;
    }
}
