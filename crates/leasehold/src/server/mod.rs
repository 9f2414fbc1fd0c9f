//! The seam between the life of a hold and the server: five calls and a stream of pushes.
//!
//! Above this line nobody knows fred or Redis; behind it another client library, or a server in
//! memory, can stand. Every call is one transmission: it never sends twice on its own (but for the
//! script text when the server's cache lacks it, which is certain not to have run). Sending again
//! is the caller's business, which alone knows the owner's order and the time of the first try.
//!
//! Cancel safety of every call: once polled, the request may be on the wire and may run, whether or
//! not the future lives on. Calls are executed in the order of their first poll: all of them go
//! through one connection at a time.

mod redis;

pub(crate) use redis::endpoint::{BadEndpoint, Endpoint};
pub(crate) use redis::{connect, tuning::Tuning};

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::key::Keys;
use crate::owner::OwnerId;

/// A reply that is still to come. Boxed: the client library's own future is 5 KB.
pub(crate) type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

pub(crate) trait Server: Send + Sync + 'static {
    /// Acquire, enqueue, enqueue again at the old place, or check: one script.
    fn take<'a>(&'a self, take: Take<'a>, within: Duration) -> Call<'a, Reply<Taken>>;

    /// Turns a grant into a hold with its full lease. Never acquires.
    fn claim<'a>(&'a self, claim: Claim<'a>, within: Duration) -> Call<'a, Reply<Mine>>;

    /// Lengthens holds, never shortens them; one answer for each, in their order. The outer error
    /// is that of the whole request.
    fn renew<'a>(&'a self, batch: &'a [Renew], within: Duration) -> Call<'a, Vec<Result<Mine, Fault>>>;

    /// Release, give back, leave the queue, or evict by force; then hand over.
    fn pass<'a>(&'a self, pass: Pass<'a>, within: Duration) -> Call<'a, Reply<Passed>>;

    /// Reads who holds and who waits. Changes nothing.
    fn look<'a>(&'a self, keys: &'a Keys, within: Duration) -> Call<'a, Looked>;

    /// Opens the push channel if it is not open, and returns when the server has confirmed it.
    /// Idempotent and cheap once open; concurrent callers share one attempt.
    fn listen(&self, within: Duration) -> Call<'_, ()>;

    /// The server sees no subscriber of ours, or messages went missing: rebuild the push channel in
    /// the background; [`Push::Missed`] follows when it stands again. Many calls make one repair.
    fn repair(&self);

    /// Ends both connections and every task behind the seam. Later calls answer [`Why::Closed`].
    fn close(&self, within: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Host and port, or the socket's path; never a password.
    fn address(&self) -> &str;
}

/// The server's clock, in microseconds since the epoch. Only compared with itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct ServerTime(pub(crate) u64);

/// A place in the queue that its waiter keeps: presented again, it is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(crate) u64);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Take<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) owner: OwnerId,
    pub(crate) lease: Duration,
    /// How long a hold that was handed over lives until it is claimed.
    pub(crate) claim: Duration,
    pub(crate) mode: Mode,
    /// The longest time until this client promises to check again.
    pub(crate) check_max: Duration,
    /// Label, host and process, for others to see. Begins with a letter, at most 64 bytes.
    pub(crate) who: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Take it now or say who has it.
    Try,
    /// Take it now or wait in the queue: at this ticket, or at the end.
    Wait(Option<Ticket>),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) owner: OwnerId,
    pub(crate) lease: Duration,
    /// A fixed hold ends at grant + lease, however late it is claimed.
    pub(crate) fixed: bool,
    pub(crate) who: &'a str,
}

#[derive(Debug, Clone)]
pub(crate) struct Renew {
    pub(crate) keys: Keys,
    pub(crate) owner: OwnerId,
    pub(crate) lease: Duration,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) target: Target<'a>,
    /// How long the server refuses a late `take` of this owner; `None`: none can come.
    pub(crate) tombstone: Option<Duration>,
}

/// Whose hold or queue entry ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    Own(OwnerId),
    /// By force: exactly the hold that was shown, whoever it belongs to.
    Seen {
        owner: &'a str,
        token: u64,
    },
    /// By force: exactly the foreign record that was shown.
    Foreign {
        kind: &'a str,
        print: &'a str,
    },
}

/// What every deciding reply carries.
#[derive(Debug, Clone)]
pub(crate) struct Reply<T> {
    /// Zero in the reply to a release that needed no clock.
    pub(crate) at: ServerTime,
    /// A grant to *another* owner of this client that the server mentions: its push may be lost.
    pub(crate) grant: Option<Grant>,
    pub(crate) body: T,
}

#[derive(Debug, Clone)]
pub(crate) enum Taken {
    /// Yours. `unclaimed`: by a hand-over, with the short claim lease only.
    Held { token: u64, remaining: Duration, unclaimed: bool },
    /// Waiting, with so many in front (`place`). `missing`: a ticket came but the owner was not in the
    /// queue any more.
    Queued { ticket: Ticket, place: u64, missing: bool, subscribers: Subscribers, seen: Contention },
    /// Somebody has it, and this try does not wait.
    Busy(Contention),
    /// This owner was ended before: it can never hold again.
    Void,
}

/// How many subscribers the command connection's server sees on this client's channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subscribers {
    Count(u64),
    /// The server does not let us ask.
    Unknown,
}

/// Who stands in the way, and for how long still.
#[derive(Debug, Clone)]
pub(crate) struct Contention {
    pub(crate) remaining: Remaining,
    pub(crate) holder: Option<Holder>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remaining {
    For(Duration),
    /// The record has no expiry: only its owner, or force, ends it.
    NoExpiry,
    /// Free, but the walk over unreachable waiters was cut off: look again.
    Undecided,
}

/// A record at the lock's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Written by this library, maybe by another release of it: facts that are absent or not
    /// understood are `None`.
    Ours { owner: String, token: u64, since: Option<ServerTime>, lease: Option<Duration>, who: String },
    /// Somebody else's: `kind` is the server's type name. `shown` is a short text of its value and
    /// `print` a fingerprint of all of it; both are empty where only [`Server::look`] reads them.
    Foreign { kind: String, shown: String, print: String },
}

/// A hold that was written for a waiter and is to be claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The bare key, prefix included.
    pub(crate) lock: String,
    pub(crate) owner: OwnerId,
    pub(crate) token: u64,
    /// What the hold had left when it was written (a push) or read (a reply).
    pub(crate) remaining: Duration,
}

/// The answer to a claim or a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mine {
    /// Still yours: this token counts, this much was left when the script ran.
    Yes {
        token: u64,
        remaining: Duration,
    },
    No(Found),
}

/// What stands at the name instead of the owner who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Absent,
    Other,
    Foreign,
}

#[derive(Debug, Clone)]
pub(crate) enum Passed {
    /// It was held by the target and is not any more. `broken` names a side key of the wrong type
    /// (or a denied channel), for which waiters were not served.
    Released { broken: Option<String> },
    /// The target did not hold it. `queued`: it was waiting. `before`: it was the last to release.
    NotHeld { queued: bool, before: bool, found: Found },
}

#[derive(Debug, Clone)]
pub(crate) struct Looked {
    pub(crate) at: ServerTime,
    /// `None`: the lock is free.
    pub(crate) holder: Option<Holder>,
    pub(crate) remaining: Remaining,
    pub(crate) waiters: u64,
}

/// What the server tells without being asked. A message can be lost; none is trusted for more than
/// a reason to ask.
#[derive(Debug, Clone)]
pub(crate) enum Push {
    Grant(Grant),
    /// A hold of this client was ended by force.
    Evicted {
        lock: String,
        owner: OwnerId,
        token: u64,
    },
    /// The lock is free but its fence counter cannot be used: this waiter's `take` meets the error.
    CounterBroken {
        lock: String,
        owner: OwnerId,
    },
    /// Messages may have been lost: the channel was opened again, or its buffer ran over, or the
    /// command connection is a new one.
    Missed,
}

/// A call that did not end with a reply of its script.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Fault {
    pub(crate) why: Why,
    /// For people: the server's words, or ours; never a secret.
    pub(crate) text: String,
    /// False only when it is certain that the script did not run.
    pub(crate) may_have_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// No connection, or it broke.
    Unavailable,
    /// Connected, and no reply in time.
    TimedOut,
    /// The server is there and refuses for now: LOADING, READONLY, MASTERDOWN, NOREPLICAS, MISCONF,
    /// BUSY, CLUSTERDOWN, TRYAGAIN.
    Refusing,
    /// OOM: nothing was written.
    Full,
    /// NOPERM, NOAUTH, WRONGPASS. The text names the ACL rule that would allow it.
    Denied,
    /// A key of the lock has another type. The text names the key.
    WrongType,
    /// The fence counter cannot be used. The text names it.
    Counter,
    /// Not a server that this library can use as it was asked to: a cluster's node, a Sentinel, no such
    /// database.
    Unfit,
    /// The client was closed.
    Closed,
    /// A reply this release does not understand.
    Protocol,
}

impl Fault {
    /// A reply that does not have the form of its script's.
    pub(crate) fn garbled(call: &str) -> Self {
        Self {
            why: Why::Protocol,
            text: format!("the reply to {call} was not understood"),
            may_have_run: true,
        }
    }

    /// Whether the same request may succeed later without anybody's doing.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self.why, Why::Unavailable | Why::TimedOut | Why::Refusing)
    }

    /// Whether the server has no memory for a write.
    pub(crate) fn is_full(&self) -> bool {
        self.why == Why::Full
    }
}
