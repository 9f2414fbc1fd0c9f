//! One try.

use std::sync::Arc;

use tracing::debug;

use super::asking::{Spec, Stage};
use super::record::Record;
use super::seat::{Seat, Won};
use super::shared::Shared;
use crate::busy::Busy;
use crate::error::Error;
use crate::server::Fault;

/// Transmissions of one try before its caller is told.
const TRIES: u32 = 3;

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
        match seat.stage() {
            Stage::Waiting => {
                return match seat.seen() {
                    Some(busy) => Ok(Tried::Busy(busy)),
                    None => Err(seat.error(Fault::garbled("take"))),
                };
            }
            Stage::Won { sent, token, remaining, unclaimed } => {
                match seat.won(sent, token, remaining, unclaimed).await? {
                    Won::Held(record) => return Ok(Tried::Held(record)),
                    Won::Stale if retry + 1 < TRIES => seat.settle(),
                    Won::TooLate if retry + 1 < TRIES => seat.start_over()?,
                    Won::TooLate | Won::Stale | Won::NotOurs => return Err(seat.too_late()),
                }
            }
            Stage::Failed(fault) if fault.is_temporary() && retry + 1 < TRIES => {
                debug!(lock = spec.keys.name(), owner = %seat.owner, %fault, retry, "a try failed");
                tokio::time::sleep(shared.settings.backoff.delay(retry, &shared.chance)).await;
                seat.settle();
            }
            Stage::Failed(fault) => return Err(seat.error(fault)),
            Stage::Hopeless(why) => return Err(seat.hopeless(why)),
            Stage::Closed => return Err(seat.closed()),
            Stage::Void | Stage::Granted { .. } => seat.start_over()?,
        }
        retry += 1;
    }
}
