//! Why no token was issued.

use crate::MalformedToken;

/// Why no token was issued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssueError {
    /// The resource cannot be a name: empty, or with braces that would put its counter into another
    /// cluster slot.
    #[error("the resource {0:?} cannot be a key's name: it is empty, or its braces are not one hash tag")]
    BadResource(String),
    /// The counter's key holds something else, or has come to the end of the numbers (2^53-2).
    #[error("the counter is broken: {0}")]
    BrokenCounter(String),
    /// The counter was not raised: the mark is further ahead than any clock can be wrong.
    #[error("sequence {0} is absurdly far ahead; the mark is broken, or another numbering's")]
    AbsurdMark(u64),
    /// The server gave a number that is no sequence.
    #[error(transparent)]
    Malformed(#[from] MalformedToken),
    /// The server failed, or did not answer. A token may have been issued; a gap in the numbers is
    /// normal.
    #[error("the server failed: {0}")]
    Server(#[source] fred::error::Error),
}

impl IssueError {
    pub(super) fn server(error: fred::error::Error) -> Self {
        match error.details().trim_start_matches('-').strip_prefix("COUNTER ") {
            Some(why) => Self::BrokenCounter(why.to_owned()),
            None => Self::Server(error),
        }
    }
}
