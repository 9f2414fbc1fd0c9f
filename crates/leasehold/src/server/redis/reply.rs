//! What the scripts answer, as the seam's types. A reply may be longer than this release knows:
//! more fields at the end are ignored. One that is shorter, or says something else, is a fault and
//! never a panic.

use std::time::Duration;

use fred::types::Value;

use super::fault::from_server;
use crate::key::Keys;
use crate::owner::OwnerId;
use crate::server::{
    Contention, Fault, Found, Grant, Holder, Looked, Mine, Passed, Remaining, Reply, ServerTime, Subscribers,
    Taken, Ticket,
};

pub(super) fn taken(value: Value, keys: &Keys, owner: OwnerId) -> Result<Reply<Taken>, Fault> {
    let mut fields = Fields::of(value)?;
    let tag = fields.text()?;
    let at = ServerTime(fields.number()?);
    let mut grant = None;
    let body = match tag.as_str() {
        "void" => Taken::Void,
        "held" => {
            let (token, remaining) = (fields.number()?, fields.span()?);
            Taken::Held { token, remaining, unclaimed: fields.number()? != 0 }
        }
        "busy" | "queued" => {
            let remaining = fields.remaining()?;
            let holder = fields.holder()?;
            grant = holder.as_ref().and_then(|holder| for_us(holder, remaining, keys, owner));
            let seen = Contention { remaining, holder };
            if tag == "busy" {
                Taken::Busy(seen)
            } else {
                let (ticket, place) = (Ticket(fields.number()?), fields.number()?);
                let missing = fields.number()? != 0;
                let subscribers = match fields.integer()? {
                    count if count < 0 => Subscribers::Unknown,
                    count => Subscribers::Count(count.unsigned_abs()),
                };
                Taken::Queued { ticket, place, missing, subscribers, seen }
            }
        }
        _ => return Err(unknown(&tag)),
    };
    Ok(Reply { at, grant, body })
}

pub(super) fn claimed(value: Value) -> Result<Reply<Mine>, Fault> {
    let mut fields = Fields::of(value)?;
    let tag = fields.text()?;
    let at = ServerTime(fields.number()?);
    let body = fields.mine(&tag)?;
    Ok(Reply { at, grant: None, body })
}

pub(super) fn renewed(value: Value, count: usize, prefix: &str) -> Result<Vec<Result<Mine, Fault>>, Fault> {
    let Value::Array(answers) = value else {
        return Err(Fault::protocol("the reply is not an array"));
    };
    if answers.len() != count {
        return Err(Fault::protocol("a batch has another number of answers than of names"));
    }
    let one = |answer| {
        let mut fields = Fields::of(answer)?;
        let tag = fields.text()?;
        if tag == "err" {
            let text = fields.text()?;
            return Err(from_server(&text, prefix).unwrap_or_else(|| Fault::protocol(text)));
        }
        fields.mine(&tag)
    };
    Ok(answers.into_iter().map(one).collect())
}

pub(super) fn passed(value: Value, keys: &Keys) -> Result<Reply<Passed>, Fault> {
    let mut fields = Fields::of(value)?;
    let tag = fields.text()?;
    let at = ServerTime(fields.number()?);
    let body = match tag.as_str() {
        "released" => {
            let broken = fields.text()?;
            Passed::Released { broken: (!broken.is_empty()).then_some(broken) }
        }
        "not" => {
            let found = fields.found()?;
            Passed::NotHeld { queued: fields.number()? != 0, before: fields.number()? != 0, found }
        }
        _ => return Err(unknown(&tag)),
    };
    let (owner, facts, remaining) = (fields.text()?, fields.text()?, fields.integer()?);
    // A text that is no owner of ours is no grant of ours: a later release may know it.
    let grant = owner.parse().ok().zip(u64::try_from(remaining).ok()).map(|(owner, left)| Grant {
        lock: keys.name().to_owned(),
        owner,
        token: Facts::of(&facts).token,
        remaining: Duration::from_millis(left),
    });
    Ok(Reply { at, grant, body })
}

pub(super) fn looked(value: Value) -> Result<Looked, Fault> {
    let mut fields = Fields::of(value)?;
    let at = ServerTime(fields.number()?);
    let remaining = fields.remaining()?;
    let waiters = fields.number()?;
    let kind = fields.text()?;
    let (first, second, third) = (fields.text()?, fields.text()?, fields.text()?);
    let holder = match kind.as_str() {
        "" => None,
        "ours" => Some(ours(first, &second, third)),
        _ => Some(Holder::Foreign { kind, shown: first, print: second }),
    };
    let remaining = if holder.is_none() { Remaining::For(Duration::ZERO) } else { remaining };
    Ok(Looked { at, holder, remaining, waiters })
}

/// The holder that stands in the way, if it is another owner of the same client: its push may have
/// been lost, and this is how the client hears of it.
fn for_us(holder: &Holder, remaining: Remaining, keys: &Keys, asked: OwnerId) -> Option<Grant> {
    let (Holder::Ours { owner, token, .. }, Remaining::For(remaining)) = (holder, remaining) else {
        return None;
    };
    let owner: OwnerId = owner.parse().ok()?;
    let ours = owner.client == asked.client && owner != asked;
    ours.then(|| Grant { lock: keys.name().to_owned(), owner, token: *token, remaining })
}

fn ours(owner: String, facts: &str, who: String) -> Holder {
    let Facts { token, since, lease } = Facts::of(facts);
    Holder::Ours { owner, token, since, lease, who }
}

/// The fact `f`: words that begin with a letter each, so that no script can take them for numbers.
struct Facts {
    /// 0 if it is missing or damaged: below every token that was ever issued.
    token: u64,
    since: Option<ServerTime>,
    lease: Option<Duration>,
}

impl Facts {
    fn of(text: &str) -> Self {
        let word = |letter| text.split(' ').find_map(|word| word.strip_prefix(letter)?.parse::<u64>().ok());
        Self {
            token: word('t').unwrap_or(0),
            since: word('s').map(ServerTime),
            lease: word('l').map(Duration::from_millis),
        }
    }
}

/// A reply, read from its front.
struct Fields(std::vec::IntoIter<Value>);

impl Fields {
    fn of(value: Value) -> Result<Self, Fault> {
        match value {
            Value::Array(fields) => Ok(Self(fields.into_iter())),
            _ => Err(Fault::protocol("the reply is not an array")),
        }
    }

    fn next(&mut self) -> Result<Value, Fault> {
        self.0.next().ok_or_else(|| Fault::protocol("the reply is too short"))
    }

    /// Foreign values are shown to people: what is not UTF-8 in them becomes a replacement mark.
    fn text(&mut self) -> Result<String, Fault> {
        match self.next()? {
            Value::String(text) => Ok(text.to_string()),
            Value::Bytes(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Value::Integer(number) => Ok(number.to_string()),
            _ => Err(Fault::protocol("the reply has something else where a text belongs")),
        }
    }

    fn integer(&mut self) -> Result<i64, Fault> {
        let bad = || Fault::protocol("the reply has something else where a number belongs");
        match self.next()? {
            Value::Integer(number) => Ok(number),
            Value::String(text) => text.parse().map_err(|_| bad()),
            _ => Err(bad()),
        }
    }

    fn number(&mut self) -> Result<u64, Fault> {
        u64::try_from(self.integer()?).map_err(|_| Fault::protocol("the reply has a negative number"))
    }

    fn span(&mut self) -> Result<Duration, Fault> {
        // -1 only if somebody took the expiry away: nothing is certain then, so nothing is left.
        Ok(Duration::from_millis(u64::try_from(self.integer()?).unwrap_or(0)))
    }

    fn remaining(&mut self) -> Result<Remaining, Fault> {
        Ok(match self.integer()? {
            -1 => Remaining::NoExpiry,
            left => u64::try_from(left)
                .map_or(Remaining::Undecided, |left| Remaining::For(Duration::from_millis(left))),
        })
    }

    fn holder(&mut self) -> Result<Option<Holder>, Fault> {
        let (kind, owner, facts, who) = (self.text()?, self.text()?, self.text()?, self.text()?);
        Ok(match kind.as_str() {
            "" => None,
            "ours" => Some(ours(owner, &facts, who)),
            _ => Some(Holder::Foreign { kind, shown: String::new(), print: String::new() }),
        })
    }

    fn mine(&mut self, tag: &str) -> Result<Mine, Fault> {
        match tag {
            "yes" => {
                let facts = self.text()?;
                Ok(Mine::Yes { token: Facts::of(&facts).token, remaining: self.span()? })
            }
            "no" => Ok(Mine::No(self.found()?)),
            _ => Err(unknown(tag)),
        }
    }

    fn found(&mut self) -> Result<Found, Fault> {
        match self.text()?.as_str() {
            "absent" => Ok(Found::Absent),
            "other" => Ok(Found::Other),
            "foreign" => Ok(Found::Foreign),
            found => Err(unknown(found)),
        }
    }
}

fn unknown(word: &str) -> Fault {
    let word: String = word.chars().take(32).collect();
    Fault::protocol(format!("this release does not know the answer {word:?}"))
}
