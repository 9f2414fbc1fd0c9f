//! Calls as the arguments of their scripts, in the order that the head of each `.lua` file gives.

use std::time::Duration;

use fred::types::Value;
use uuid::Uuid;

use super::tuning::millis;
use crate::key::Keys;
use crate::server::{Claim, Mode, Pass, Renew, Take, Target};

/// What every request says about this client.
pub(super) struct Sender {
    pub(super) client: Uuid,
    /// Where it can be told.
    pub(super) channel: String,
    /// Milliseconds, as text.
    pub(super) fence_ttl: String,
}

impl Sender {
    pub(super) fn take(&self, take: &Take<'_>, reach: &'static str) -> Vec<Value> {
        let (mode, ticket) = match take.mode {
            Mode::Try => ("try", 0),
            Mode::Wait(ticket) => ("wait", ticket.map_or(0, |ticket| ticket.0)),
        };
        let mut words = four_keys(take.keys, 11);
        words.extend([
            take.owner.to_string().into(),
            span(take.lease),
            span(take.claim),
            fixed(mode),
            ticket.to_string().into(),
            span(take.check_max),
            self.fence_ttl.as_str().into(),
            self.client.to_string().into(),
            self.channel.as_str().into(),
            fixed(reach),
            take.who.into(),
        ]);
        words
    }

    pub(super) fn pass(&self, pass: &Pass<'_>) -> Vec<Value> {
        let mut words = four_keys(pass.keys, 7);
        words.extend([
            self.client.to_string().into(),
            self.fence_ttl.as_str().into(),
            // Rounded up, so that a tombstone that was asked for is never none.
            pass.tombstone.map_or_else(|| fixed("0"), |life| span(life.max(Duration::from_millis(1)))),
        ]);
        match pass.target {
            Target::Own(owner) => {
                words.extend([fixed("own"), owner.to_string().into(), fixed(""), fixed("")]);
            }
            Target::Seen { owner, token } => {
                words.extend([
                    fixed("seen"),
                    owner.into(),
                    token.to_string().into(),
                    self.notice(owner).into(),
                ]);
            }
            Target::Foreign { kind, print } => {
                words.extend([fixed("foreign"), kind.into(), print.into(), fixed("")]);
            }
        }
        words
    }

    /// The channel of an owner's client: that of this one, with the other uuid in it. Empty if the
    /// owner is none of this library's, or this client's channel does not end with its uuid.
    fn notice(&self, owner: &str) -> String {
        let stem = self.channel.strip_suffix(&self.client.to_string());
        let client = owner.split_once(':').and_then(|(client, _)| Uuid::try_parse(client).ok());
        stem.zip(client).map_or_else(String::new, |(stem, client)| format!("{stem}{client}"))
    }
}

pub(super) fn claim(claim: &Claim<'_>) -> Vec<Value> {
    vec![
        fixed("2"),
        claim.keys.name().into(),
        claim.keys.waiters().into(),
        claim.owner.to_string().into(),
        span(claim.lease),
        fixed(if claim.fixed { "fixed" } else { "renewed" }),
        claim.who.into(),
    ]
}

pub(super) fn renew(batch: &[Renew]) -> Vec<Value> {
    let mut words = Vec::with_capacity(2 + 3 * batch.len());
    words.push(batch.len().to_string().into());
    words.extend(batch.iter().map(|one| Value::from(one.keys.name())));
    for one in batch {
        words.push(one.owner.to_string().into());
        words.push(span(one.lease));
    }
    words
}

pub(super) fn look(keys: &Keys) -> Vec<Value> {
    vec![fixed("2"), keys.name().into(), keys.queue().into()]
}

/// Room for the script in front, then the number of keys and the keys.
fn four_keys(keys: &Keys, more: usize) -> Vec<Value> {
    let mut words = Vec::with_capacity(6 + more);
    words.extend([
        fixed("4"),
        keys.name().into(),
        keys.fence().into(),
        keys.queue().into(),
        keys.waiters().into(),
    ]);
    words
}

fn span(duration: Duration) -> Value {
    millis(duration).to_string().into()
}

fn fixed(word: &'static str) -> Value {
    Value::from_static_str(word)
}
