//! A hand-over: the grant is read, and claimed before the work starts.

use tracing::{debug, trace};

use super::asking::Stage;
use super::release::Job;
use super::seat::{Seat, Won};
use super::shared::Shared;
use super::table::State;
use crate::clock::{self, Moment};
use crate::error::{Error, Phase as At};
use crate::key::Keys;
use crate::lease::Kind;
use crate::server::{Claim, Grant, Mine};

impl Shared {
    /// Takes in a grant, from a push or from the reply to a request sent at `sent`.
    ///
    /// A grant is believed only as far as a claim goes. One for an owner that is gone is passed on
    /// at once; the claim lease bounds whatever is lost on the way.
    pub(crate) fn granted(&self, grant: &Grant, sent: Option<Moment>) {
        if grant.owner.client != self.client {
            return;
        }
        let owner = grant.owner.count;
        let now = clock::now();
        let mut table = self.table();
        match table.get(owner) {
            Some(State::Asking(asking)) => {
                let meant = asking.waits
                    && asking.spec.keys.name() == grant.lock
                    && matches!(asking.stage, Stage::Waiting)
                    && asking.granted != Some(grant.token);
                if !meant {
                    trace!(lock = grant.lock, owner = %grant.owner, "a grant that says nothing new");
                    return;
                }
                let keys = asking.spec.keys.clone();
                debug!(lock = grant.lock, owner = %grant.owner, token = grant.token, "granted");
                if let Some(asking) = table.asking(owner) {
                    asking.granted = Some(grant.token);
                    asking.queued = false;
                }
                let waker = table.turn(owner, Stage::Granted { until: now + grant.remaining });
                // Whoever else waits here is served when this hold is claimed and released, or ends.
                if table.waited.arm_by(&keys, now + self.check_in(grant.remaining)) {
                    self.checks.notify_one();
                }
                drop(table);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            // A late or doubled word about a hold that is known.
            Some(State::Held(_) | State::Passing) => {}
            None => {
                let Ok(keys) = Keys::new("", &grant.lock) else { return };
                if sent.is_some_and(|sent| table.waited.passed_since(&keys, sent)) {
                    // The reply may speak of a hold that was released after its script ran.
                    return;
                }
                drop(table);
                debug!(lock = grant.lock, owner = %grant.owner, "a grant for an owner that is gone is passed on");
                self.pass_later(Job::of_owner(&keys, grant.owner, false, grant.remaining));
            }
        }
    }
}

impl Seat {
    /// Claims the hold that was written for this owner, until about `until`.
    pub(crate) async fn claim(&mut self, until: Moment) -> Result<Won, Error> {
        self.at = At::Claim;
        let sent = clock::now();
        let mut retry = 0;
        loop {
            let spec = &*self.spec;
            let claim = Claim {
                keys: &spec.keys,
                owner: self.owner,
                lease: spec.lease,
                fixed: spec.kind == Kind::Fixed,
                who: &spec.who,
            };
            let within = self.shared.settings.command_timeout;
            match self.shared.server.claim(claim, within).await.map(|reply| reply.body) {
                Ok(Mine::Yes { token, remaining }) => return self.hold(sent, token, remaining),
                Ok(Mine::No(found)) => {
                    debug!(lock = spec.keys.name(), owner = %self.owner, ?found, "a grant came too late");
                    return Ok(Won::NotOurs);
                }
                Err(fault) => {
                    let delay = self.shared.settings.backoff.delay(retry, &self.shared.chance);
                    debug!(lock = spec.keys.name(), owner = %self.owner, %fault, retry, "a claim failed");
                    if !fault.is_temporary() {
                        return Err(self.error(fault));
                    }
                    if clock::now() + delay >= until {
                        // Unknown: the next `take` tells whether it is ours.
                        return Ok(Won::NotOurs);
                    }
                    tokio::time::sleep(delay).await;
                    retry += 1;
                }
            }
        }
    }
}
