//! An owner that wants the lock, and how far it is.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::busy::Busy;
use crate::clock::Moment;
use crate::key::Keys;
use crate::lease::Kind;
use crate::server::{Fault, Ticket};

/// What an acquisition asks for.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) keys: Keys,
    pub(crate) lease: Duration,
    pub(crate) kind: Kind,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) who: String,
}

/// An owner that wants the lock.
pub(crate) struct Asking {
    pub(crate) spec: Arc<Spec>,
    /// In the queue, or on its way there. A try is not: no grant can be meant for it.
    pub(crate) waits: bool,
    pub(crate) stage: Stage,
    pub(crate) ticket: Option<Ticket>,
    /// `take`s of this owner without an answer so far.
    pub(crate) in_flight: u32,
    /// The `take` under way is a check: the task `waits` takes its answer in.
    pub(crate) checked: bool,
    /// What the server may have of it.
    pub(crate) trace: Trace,
    /// When the request under way was first sent; kept while its outcome is unknown.
    pub(crate) first_sent: Option<Moment>,
    /// The server said "queued", and no grant has come since.
    pub(crate) queued: bool,
    /// The token of the last grant that was read, so that a doubled push is one grant.
    pub(crate) granted: Option<u64>,
    pub(crate) waker: Option<Waker>,
    /// What the server last said about the lock.
    pub(crate) seen: Option<Busy>,
    /// Why it could not be asked since.
    pub(crate) fault: Option<Fault>,
}

/// What an asking owner may have left on the server, and so what ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trace {
    /// Nothing was sent, or only tries that were answered.
    None,
    /// Every `take` was sent once and answered, or is under way: a pass ends it.
    Known,
    /// A `take` had an unknown outcome or was sent twice: the pass leaves a tombstone.
    Unknown,
}

impl Asking {
    pub(crate) fn new(spec: Arc<Spec>, waits: bool, ticket: Option<Ticket>) -> Self {
        Self {
            spec,
            waits,
            stage: Stage::Waiting,
            ticket,
            in_flight: 0,
            checked: false,
            trace: Trace::None,
            first_sent: None,
            queued: false,
            granted: None,
            waker: None,
            seen: None,
            fault: None,
        }
    }

    /// Whether a `take` may be sent for it: there is no news, and none is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0 && matches!(self.stage, Stage::Waiting)
    }

    /// The pass that ends this owner, if one is needed, must leave a tombstone.
    pub(crate) fn needs_tombstone(&self) -> bool {
        self.in_flight > 0 || self.trace == Trace::Unknown
    }
}

/// How far an asking owner is.
#[derive(Debug, Clone)]
pub(crate) enum Stage {
    /// Nothing new since the last `take`.
    Waiting,
    /// A hold was written for it by a hand-over, and lives until about `until` unless claimed.
    Granted { until: Moment },
    /// A `take` first sent at `sent` was answered with a hold.
    Won { sent: Moment, token: u64, remaining: Duration, unclaimed: bool },
    /// A `take` failed while the owner had no ticket: its own task decides.
    Failed(Fault),
    /// The server holds a tombstone for it: it can never win.
    Void,
    /// What stands at the name will not end by itself, or is no lock: waiting is no use.
    Hopeless(&'static str),
    /// The client was closed.
    Closed,
}
