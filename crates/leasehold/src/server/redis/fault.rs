//! What an error of the client library or the server means to a caller.

use fred::error::{Error, ErrorKind};

use super::acl;
use crate::server::{Fault, Why};

impl Fault {
    pub(super) fn new(why: Why, text: impl Into<String>, may_have_run: bool) -> Self {
        Self { why, text: text.into(), may_have_run }
    }

    pub(super) fn closed() -> Self {
        Self::new(Why::Closed, "the client was closed", false)
    }

    pub(super) fn protocol(text: impl Into<String>) -> Self {
        Self::new(Why::Protocol, text, true)
    }
}

/// Is it the server that speaks, and it does not know the script?
pub(super) fn is_noscript(error: &Error) -> bool {
    error.details().starts_with("NOSCRIPT")
}

/// Any error of a call. `prefix` goes into the rule that would allow what was denied.
pub(super) fn fault(error: &Error, prefix: &str) -> Fault {
    from_server(error.details(), prefix).unwrap_or_else(|| from_client(error))
}

/// An error reply, by its first word; `None` if these are not a server's words.
///
/// Nothing has happened when a script's *first write* is refused, and the scripts are written so
/// that every such refusal hits the first write (docs/protocol.md).
pub(super) fn from_server(text: &str, prefix: &str) -> Option<Fault> {
    let text = text.strip_prefix('-').unwrap_or(text);
    let word = text.split([' ', '\r', '\n']).next().unwrap_or("");
    let (why, may_have_run) = match word {
        "LOADING" | "READONLY" | "MASTERDOWN" | "NOREPLICAS" | "MISCONF" | "BUSY" | "CLUSTERDOWN"
        | "TRYAGAIN" | "NOMASTERLINK" => (Why::Refusing, false),
        // Only a cluster's node says so.
        "MOVED" | "ASK" => (Why::Unfit, false),
        "OOM" => (Why::Full, false),
        // A script that was denied one of its commands did run up to there.
        "NOPERM" => (Why::Denied, text.contains("script")),
        "NOAUTH" | "WRONGPASS" | "DENIED" => (Why::Denied, false),
        "WRONGTYPE" => (Why::WrongType, false),
        // A waiter may stand in the queue.
        "COUNTER" => (Why::Counter, true),
        "NOSCRIPT" | "CROSSSLOT" => (Why::Protocol, false),
        "ERR" if text.starts_with("ERR max number of clients") => (Why::Unavailable, false),
        // A denial inside a script, as 7.0 and as later releases word it.
        "ERR" if text.contains("The user executing the script can't") || text.contains("ACL failure") => {
            (Why::Denied, true)
        }
        "ERR" if text.starts_with("ERR DB index is out of range") => (Why::Unfit, false),
        "ERR" => (Why::Protocol, true),
        _ => return None,
    };
    let mut text = text.strip_prefix("COUNTER ").unwrap_or(text).to_owned();
    if word == "NOPERM" || (why == Why::Denied && word == "ERR") {
        text.push_str("; the user needs: ");
        text.push_str(&acl::rule(prefix));
    }
    Some(Fault { why, text, may_have_run })
}

/// What fred says for itself. Only two of its errors prove that nothing was sent.
fn from_client(error: &Error) -> Fault {
    let details = error.details();
    let unsent = matches!(error.kind(), ErrorKind::Backpressure)
        || details.starts_with("Client is not initialized")
        || details.starts_with("Failed to send command to router");
    match error.kind() {
        ErrorKind::Timeout => Fault::new(Why::TimedOut, "no reply in time", true),
        ErrorKind::Auth => Fault::new(Why::Denied, details, false),
        ErrorKind::Protocol | ErrorKind::Parse => Fault::protocol(details),
        ErrorKind::IO => Fault::new(Why::Unavailable, format!("the connection broke: {details}"), true),
        _ if unsent => Fault::new(Why::Unavailable, "not connected", false),
        _ => Fault::new(Why::Unavailable, format!("the connection broke: {details}"), true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_decides() {
        let cases = [
            ("LOADING Redis is loading the dataset in memory", Why::Refusing, false),
            ("READONLY You can't write against a read only replica. script: abc", Why::Refusing, false),
            ("MISCONF Redis is configured to save RDB snapshots", Why::Refusing, false),
            ("NOREPLICAS Not enough good replicas to write.", Why::Refusing, false),
            ("BUSY Redis is busy running a script.", Why::Refusing, false),
            ("OOM command not allowed when used memory > 'maxmemory'.", Why::Full, false),
            ("NOPERM this user has no permissions to run the 'evalsha' command", Why::Denied, false),
            ("NOPERM ACL failure in script: no permissions", Why::Denied, true),
            ("NOAUTH Authentication required.", Why::Denied, false),
            ("WRONGTYPE {a}:queue is not a sorted set", Why::WrongType, false),
            ("COUNTER {a}:fence is out of range", Why::Counter, true),
            ("ERR max number of clients reached", Why::Unavailable, false),
            ("ERR DB index is out of range", Why::Unfit, false),
            ("MOVED 3999 127.0.0.1:6381", Why::Unfit, false),
            ("ERR The user executing the script can't run this command or subcommand", Why::Denied, true),
            ("ERR user_script:3: attempt to index a nil value", Why::Protocol, true),
        ];
        for (text, why, may_have_run) in cases {
            let fault = from_server(text, "app:").unwrap();
            assert_eq!((fault.why, fault.may_have_run), (why, may_have_run), "{text}");
        }
        assert!(from_server("Connection closed.", "").is_none());
        assert!(from_server("", "").is_none());
    }

    #[test]
    fn a_denial_names_the_rule() {
        let fault =
            from_server("NOPERM this user has no permissions to run the 'evalsha' command", "app:").unwrap();
        assert!(fault.text.contains("~app:* ~{app:* &app:push:* +evalsha"), "{}", fault.text);
    }

    #[test]
    fn only_what_was_never_sent_is_certain_not_to_have_run() {
        let not_sent = Error::new(ErrorKind::Unknown, "Client is not initialized.");
        assert!(!fault(&not_sent, "").may_have_run);
        for kind in [ErrorKind::IO, ErrorKind::Canceled, ErrorKind::Timeout, ErrorKind::Unknown] {
            assert!(fault(&Error::new(kind, "x"), "").may_have_run);
        }
    }
}
