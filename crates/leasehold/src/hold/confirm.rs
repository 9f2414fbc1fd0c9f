//! The holder asks the server about its hold, or moves its end.

use std::sync::Arc;
use std::time::Duration;

use super::record::Record;
use super::shared::Shared;
use crate::clock;
use crate::error::{Error, Phase};
use crate::lease::{self, Kind};
use crate::outcome::{HoldState, LostReason};
use crate::server::{Fault, Found, Mine, Renew};

const TRIES: u32 = 3;

/// Asks whether the hold is still ours, and moves its end to `lengthen` from now if that is later.
/// What remains, or the loss.
///
/// Dropping the future changes nothing but what the server was already asked.
pub(crate) async fn confirm(
    shared: &Arc<Shared>,
    record: &Arc<Record>,
    lengthen: Option<Duration>,
) -> Result<Duration, Error> {
    let began = clock::now();
    let place = |error: Error| {
        let elapsed = clock::now().since(began);
        error.with_lock(record.keys.name()).at(Phase::Renew, shared.server.address(), elapsed)
    };
    let mut retry = 0;
    loop {
        match shared.stand(record) {
            HoldState::Lost(reason) => return Err(Error::lost(reason).with_lock(record.keys.name())),
            HoldState::Released => {
                return Err(Error::invalid("the hold was released").with_lock(record.keys.name()));
            }
            HoldState::Safe | HoldState::AtRisk { .. } => {}
        }
        match ask(shared, record, lengthen).await {
            Ok(remaining) => return Ok(remaining),
            Err(Refusal::Lost(reason)) => shared.lose(record, reason),
            Err(Refusal::Fault(fault)) => {
                if !fault.is_temporary() || retry + 1 == TRIES {
                    return Err(place(Error::from(fault)));
                }
                tokio::time::sleep(shared.settings.backoff.delay(retry, &shared.chance)).await;
                retry += 1;
            }
        }
    }
}

enum Refusal {
    Lost(LostReason),
    Fault(Fault),
}

async fn ask(shared: &Shared, record: &Arc<Record>, lengthen: Option<Duration>) -> Result<Duration, Refusal> {
    let sent = clock::now();
    let asked = shared.table().reschedule(record.owner.count, |held| {
        lengthen.unwrap_or_else(|| match held.schedule.kind() {
            Kind::Renewed => held.schedule.lease(),
            Kind::Fixed => held.schedule.deadline().since(sent).max(Duration::from_millis(1)),
        })
    });
    // Over in the meantime: the next look says how.
    let Some(lease) = asked else { return Err(Refusal::Lost(record.expiry())) };
    let batch = [Renew { keys: record.keys.clone(), owner: record.owner, lease }];
    let answers =
        shared.server.renew(&batch, shared.settings.command_timeout).await.map_err(Refusal::Fault)?;
    let answer = answers.into_iter().next().unwrap_or_else(|| Err(Fault::garbled("renew")));
    match answer.map_err(Refusal::Fault)? {
        Mine::Yes { token, remaining } => {
            let now = clock::now();
            let deadline = lease::deadline(sent, remaining, shared.margin(now));
            let counts = shared.table().reschedule(record.owner.count, |held| {
                // An answer after the old deadline revives nothing.
                let counts = now < held.schedule.deadline();
                if counts {
                    held.schedule.extended(sent, lengthen.unwrap_or(held.schedule.lease()), deadline);
                    record.renewed(token, deadline);
                }
                counts
            });
            if counts == Some(true) {
                shared.renewals.notify_one();
                Ok(record.deadline().since(now))
            } else {
                Err(Refusal::Lost(record.expiry()))
            }
        }
        Mine::No(Found::Absent) => Err(Refusal::Lost(LostReason::Gone)),
        Mine::No(Found::Other | Found::Foreign) => Err(Refusal::Lost(LostReason::Taken)),
    }
}
