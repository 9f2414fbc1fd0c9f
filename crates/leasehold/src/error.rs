//! Errors: what the caller should do, where it happened, and whether the server may have changed.

use std::fmt;
use std::time::Duration;

use crate::outcome::LostReason;
use crate::server::{Fault, Why};

/// What to do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call breaks a rule that the message names, and nothing was sent; or the address is of a
    /// server that cannot be used: a cluster's node, a Sentinel, a database that is not there. Fix the
    /// call.
    Invalid,
    /// The server cannot be reached, or it refuses for now. Try again later.
    Unavailable,
    /// The server did not answer in time. Try again later.
    TimedOut,
    /// The user lacks a permission, which the message names, or the credentials are wrong.
    Denied,
    /// A side key of the lock holds something else. Use another name.
    WrongKind,
    /// The name holds something that no lock library wrote, or a record without an end. Waiting
    /// would not help: use another name, or have a person look at it.
    Foreign,
    /// The server is out of memory. Nothing was written.
    ServerFull,
    /// The client was closed.
    Closed,
    /// The hold is lost: stop the protected work.
    Lost,
    /// The server answered something that this release does not understand.
    Protocol,
}

/// Where in the life of a hold an error struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Connecting to the server.
    Connect,
    /// Opening the push channel, before the first wait.
    Subscribe,
    /// Trying to take the lock, or to enter its queue.
    Acquire,
    /// Queued behind a holder.
    Wait,
    /// Claiming a hold that was handed over.
    Claim,
    /// Asking the server about a hold, or lengthening it.
    Renew,
    /// Releasing.
    Release,
    /// Looking in from outside.
    Inspect,
}

impl Phase {
    fn noun(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Subscribe => "subscribe",
            Self::Acquire => "acquire",
            Self::Wait => "wait",
            Self::Claim => "claim",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Inspect => "inspect",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.noun())
    }
}

/// An error of this library. Its message names the lock, what happened, the server (never a
/// password), the phase, and whether the server may have changed.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    text: String,
    lock: Option<String>,
    context: Option<Context>,
    lost: Option<LostReason>,
    cause: Option<Fault>,
}

#[derive(Debug, Clone)]
struct Context {
    phase: Phase,
    address: String,
    elapsed: Duration,
}

impl Error {
    /// What to do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The lock's key, prefix included, where there is one.
    #[must_use]
    pub fn lock(&self) -> Option<&str> {
        self.0.lock.as_deref()
    }

    /// Where it struck; `None` for an error found before anything was sent.
    #[must_use]
    pub fn phase(&self) -> Option<Phase> {
        self.0.context.as_ref().map(|context| context.phase)
    }

    /// The server's host and port, or its socket's path. Never a password.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.0.context.as_ref().map(|context| &*context.address)
    }

    /// How long the call had run.
    #[must_use]
    pub fn elapsed(&self) -> Option<Duration> {
        self.0.context.as_ref().map(|context| context.elapsed)
    }

    /// Why the hold was lost, for [`ErrorKind::Lost`].
    #[must_use]
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.0.lost
    }

    /// Whether the server may have done what was asked all the same. `false` only when it is
    /// certain that it did not. What a failed acquire may have left is cleaned up in the background
    /// and ends by itself within one lease.
    #[must_use]
    pub fn may_have_changed_server(&self) -> bool {
        self.0.cause.as_ref().is_some_and(|fault| fault.may_have_run)
    }

    fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, text: text.into(), lock: None, context: None, lost: None, cause: None }))
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, text)
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the client is closed")
    }

    pub(crate) fn foreign(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Foreign, text)
    }

    pub(crate) fn timed_out(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::TimedOut, text)
    }

    pub(crate) fn lost(reason: LostReason) -> Self {
        let mut error = Self::new(ErrorKind::Lost, format!("the hold is lost: {reason}"));
        error.0.lost = Some(reason);
        error
    }

    pub(crate) fn with_lock(mut self, lock: &str) -> Self {
        self.0.lock = Some(lock.to_owned());
        self
    }

    pub(crate) fn at(mut self, phase: Phase, address: &str, elapsed: Duration) -> Self {
        self.0.context = Some(Context { phase, address: address.to_owned(), elapsed });
        self
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let kind = match fault.why {
            Why::Unavailable | Why::Refusing => ErrorKind::Unavailable,
            Why::TimedOut => ErrorKind::TimedOut,
            Why::Full => ErrorKind::ServerFull,
            Why::Denied => ErrorKind::Denied,
            Why::WrongType | Why::Counter => ErrorKind::WrongKind,
            Why::Unfit => ErrorKind::Invalid,
            Why::Closed => ErrorKind::Closed,
            Why::Protocol => ErrorKind::Protocol,
        };
        let mut error = Self::new(kind, fault.text.clone());
        error.0.cause = Some(fault);
        error
    }
}

impl From<LostReason> for Error {
    fn from(reason: LostReason) -> Self {
        Self::lost(reason)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if let Some(lock) = &inner.lock {
            write!(f, "lock {lock:?}: ")?;
        }
        f.write_str(&inner.text)?;
        if let Some(Context { phase, address, elapsed }) = &inner.context {
            write!(f, ", after {:.1} s at {address} (phase: {phase})", elapsed.as_secs_f64())?;
            if let Some(fault) = &inner.cause {
                let may = if fault.may_have_run { "may have" } else { "has not" };
                write!(f, "; the server {may} changed")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.kind())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.lost.as_ref().map(|reason| reason as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_it_all() {
        let fault = Fault {
            why: Why::TimedOut,
            text: "timed out waiting for the reply to take".to_owned(),
            may_have_run: true,
        };
        let error = Error::from(fault).with_lock("orders:42").at(
            Phase::Acquire,
            "redis.internal:6379",
            Duration::from_millis(1_040),
        );
        assert_eq!(
            error.to_string(),
            "lock \"orders:42\": timed out waiting for the reply to take, after 1.0 s at \
             redis.internal:6379 (phase: acquire); the server may have changed"
        );
        assert!(error.may_have_changed_server());
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(!Error::invalid("x").may_have_changed_server());
        assert_eq!(Error::lost(LostReason::Gone).lost_reason(), Some(LostReason::Gone));
    }
}
