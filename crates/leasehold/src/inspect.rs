//! Looking in from outside, and ending by force what was seen.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use crate::busy::{ClientHolder, Holder, Remaining};
use crate::clock;
use crate::error::{Error, Phase};
use crate::hold::Shared;
use crate::key::Keys;
use crate::server::{self, Call, Looked, Pass, Passed, Target};

const TRIES: u32 = 3;

/// What stood at a lock's name at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Seen {
    /// Nobody holds it. Waiters can be there: those that cannot be reached are passed over.
    Free {
        /// How many wait.
        waiters: u64,
    },
    /// A client of this library holds it.
    Held(SeenHold),
    /// Another library's record, or a value that is no lock.
    Foreign(SeenForeign),
}

impl Seen {
    /// Whether nobody holds it.
    #[must_use]
    pub fn is_free(&self) -> bool {
        matches!(self, Self::Free { .. })
    }

    /// The hold, if a client of this library has one.
    #[must_use]
    pub fn held(&self) -> Option<&SeenHold> {
        match self {
            Self::Held(hold) => Some(hold),
            _ => None,
        }
    }
}

/// A hold, seen from outside.
#[derive(Debug, Clone)]
pub struct SeenHold {
    holder: ClientHolder,
    remaining: Remaining,
    waiters: u64,
}

impl SeenHold {
    /// Who, since when, with which token and label.
    #[must_use]
    pub fn holder(&self) -> &ClientHolder {
        &self.holder
    }

    /// How long the present lease lasts.
    #[must_use]
    pub fn remaining(&self) -> Remaining {
        self.remaining
    }

    /// How long ago it was last renewed (or acquired), as far as its lease tells: a hold that was
    /// handed over and not yet claimed, or extended, looks younger or older.
    #[must_use]
    pub fn renewed_ago(&self) -> Option<Duration> {
        match (self.holder.lease(), self.remaining) {
            (Some(lease), Remaining::For(remaining)) => Some(lease.saturating_sub(remaining)),
            _ => None,
        }
    }

    /// How many wait.
    #[must_use]
    pub fn waiters(&self) -> u64 {
        self.waiters
    }
}

/// A record that this library did not write.
#[derive(Debug, Clone)]
pub struct SeenForeign {
    kind: String,
    shown: String,
    print: String,
    remaining: Remaining,
    waiters: u64,
}

impl SeenForeign {
    /// The server's name of its type: `hash` for a lock of Redisson's.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The beginning of its value, for people.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.shown
    }

    /// Until when it lives.
    #[must_use]
    pub fn remaining(&self) -> Remaining {
        self.remaining
    }

    /// How many of this library's waiters wait behind it.
    #[must_use]
    pub fn waiters(&self) -> u64 {
        self.waiters
    }
}

/// What a release by force found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evicted {
    /// What was seen stood there still, and is gone.
    Freed,
    /// Something else, or nothing, stood there by now (or in what was seen). Nothing was changed.
    Changed,
}

pub(crate) async fn look(shared: &Arc<Shared>, keys: &Keys) -> Result<Seen, Error> {
    let timeout = shared.settings.command_timeout;
    let Looked { at, holder, remaining, waiters } =
        again(shared, keys, || shared.server.look(keys, timeout)).await?;
    let remaining = remaining.into();
    Ok(match holder {
        None => Seen::Free { waiters },
        Some(server::Holder::Foreign { kind, shown, print }) => {
            Seen::Foreign(SeenForeign { kind, shown, print, remaining, waiters })
        }
        Some(ours) => match Holder::new(ours, at) {
            Holder::Client(holder) => Seen::Held(SeenHold { holder, remaining, waiters }),
            Holder::Foreign { .. } => Seen::Free { waiters },
        },
    })
}

pub(crate) async fn evict(shared: &Arc<Shared>, keys: &Keys, seen: &Seen) -> Result<Evicted, Error> {
    let target = match seen {
        Seen::Free { .. } => return Ok(Evicted::Changed),
        Seen::Held(hold) => Target::Seen { owner: hold.holder.owner(), token: hold.holder.token() },
        Seen::Foreign(record) => Target::Foreign { kind: &record.kind, print: &record.print },
    };
    let timeout = shared.settings.command_timeout;
    let sent = clock::now();
    let pass = Pass { keys, target, tombstone: None };
    let reply = again(shared, keys, || shared.server.pass(pass, timeout)).await?;
    if let Some(grant) = reply.grant {
        shared.granted(&grant, Some(sent));
    }
    match reply.body {
        Passed::Released { .. } => {
            warn!(lock = keys.name(), ?target, "released by force");
            Ok(Evicted::Freed)
        }
        Passed::NotHeld { .. } => Ok(Evicted::Changed),
    }
}

/// Asks up to three times: both calls may run twice.
async fn again<'a, T>(shared: &Shared, keys: &Keys, call: impl Fn() -> Call<'a, T>) -> Result<T, Error> {
    let began = clock::now();
    let mut retry = 0;
    loop {
        match call().await {
            Ok(reply) => return Ok(reply),
            Err(fault) if fault.is_temporary() && retry + 1 < TRIES => {
                tokio::time::sleep(shared.settings.backoff.delay(retry, &shared.chance)).await;
                retry += 1;
            }
            Err(fault) => {
                let elapsed = clock::now().since(began);
                let error = Error::from(fault).with_lock(keys.name());
                return Err(error.at(Phase::Inspect, shared.server.address(), elapsed));
            }
        }
    }
}
