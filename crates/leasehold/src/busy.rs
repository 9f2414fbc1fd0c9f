//! Busy: who is in the way, and for how long.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::server::{self, Contention, ServerTime};

/// Who holds the lock, since when, for how long still; and one's place, if one waited.
///
/// A picture of the moment at which the server was last asked, of use to people and logs.
#[derive(Debug, Clone)]
pub struct Busy {
    pub(crate) holder: Option<Holder>,
    pub(crate) remaining: Remaining,
    pub(crate) place: Option<u64>,
}

impl Busy {
    pub(crate) fn new(seen: Contention, at: ServerTime, place: Option<u64>) -> Self {
        Self {
            holder: seen.holder.map(|holder| Holder::new(holder, at)),
            remaining: seen.remaining.into(),
            place,
        }
    }

    /// Who holds it. `None` when nobody does, but another waiter's turn is about to come.
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// How long the present lease lasts. A renewed hold may go on for much longer.
    #[must_use]
    pub fn remaining(&self) -> Remaining {
        self.remaining
    }

    /// The place in the queue when it was last asked: 1 is next. `None` after a try that did not
    /// wait.
    #[must_use]
    pub fn place(&self) -> Option<u64> {
        self.place
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holder {
            Some(holder) => write!(f, "held by {holder}")?,
            None => f.write_str("about to pass to a waiter")?,
        }
        write!(f, ", {}", self.remaining)?;
        if let Some(place) = self.place {
            write!(f, "; place {place} in the queue")?;
        }
        Ok(())
    }
}

/// Until when a record lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remaining {
    /// This long, unless it is renewed.
    For(Duration),
    /// For ever: somebody took the record's expiry away, or never gave it one.
    NoExpiry,
    /// The lock is free; who gets it is not decided yet.
    Undecided,
}

impl From<server::Remaining> for Remaining {
    fn from(remaining: server::Remaining) -> Self {
        match remaining {
            server::Remaining::For(span) => Self::For(span),
            server::Remaining::NoExpiry => Self::NoExpiry,
            server::Remaining::Undecided => Self::Undecided,
        }
    }
}

impl fmt::Display for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::For(span) => write!(f, "for another {:.1} s unless renewed", span.as_secs_f64()),
            Self::NoExpiry => f.write_str("without an end"),
            Self::Undecided => f.write_str("not decided yet"),
        }
    }
}

/// A holder, as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// A client of this library, of this release or another.
    Client(ClientHolder),
    /// Another library's record, Redisson's for one. `kind` is the server's name of its type.
    Foreign {
        /// `hash`, `string` and so on.
        kind: String,
    },
}

impl Holder {
    pub(crate) fn new(holder: server::Holder, at: ServerTime) -> Self {
        match holder {
            server::Holder::Ours { owner, token, since, lease, who } => {
                let (process, host, label) = crate::who::parse(&who);
                Self::Client(ClientHolder { owner, token, since, lease, seen: at, process, host, label })
            }
            server::Holder::Foreign { kind, .. } => Self::Foreign { kind },
        }
    }

    /// The holder's facts, if it is a client of this library.
    #[must_use]
    pub fn client(&self) -> Option<&ClientHolder> {
        match self {
            Self::Client(client) => Some(client),
            Self::Foreign { .. } => None,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(client) => write!(f, "{client}"),
            Self::Foreign { kind } => write!(f, "another library's record (a {kind})"),
        }
    }
}

/// Facts that a client of this library writes beside its hold. Any of them can be absent: a hold
/// that was handed over has no label, host or process until it is claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientHolder {
    owner: String,
    token: u64,
    since: Option<ServerTime>,
    lease: Option<Duration>,
    seen: ServerTime,
    process: Option<u32>,
    host: Option<String>,
    label: Option<String>,
}

impl ClientHolder {
    /// The owner id: the client's uuid and a number, fresh for every acquisition.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The number of its fencing token.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// How long it has held the lock, by the server's clock.
    #[must_use]
    pub fn held_for(&self) -> Option<Duration> {
        self.since.map(|since| Duration::from_micros(self.seen.0.saturating_sub(since.0)))
    }

    /// When it got the lock, by the server's wall clock. For people.
    #[must_use]
    pub fn since(&self) -> Option<SystemTime> {
        self.since.and_then(|since| UNIX_EPOCH.checked_add(Duration::from_micros(since.0)))
    }

    /// The lease it asked for.
    #[must_use]
    pub fn lease(&self) -> Option<Duration> {
        self.lease
    }

    /// The label that its client or lock handle was given.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Its host's name, shortened.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Its process id.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        self.process
    }
}

impl fmt::Display for ClientHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.label, &self.host, self.process) {
            (Some(label), Some(host), Some(process)) => write!(f, "{label} (process {process} on {host})")?,
            (None, Some(host), Some(process)) => write!(f, "process {process} on {host}")?,
            (Some(label), ..) => f.write_str(label)?,
            _ => write!(f, "owner {}", self.owner)?,
        }
        if let Some(span) = self.held_for() {
            write!(f, " since {:.1} s", span.as_secs_f64())?;
        }
        Ok(())
    }
}
