//! Why there is no server.

use std::fmt;

/// What went wrong while a server was found, started or steered. It is a sentence for a person who reads
/// a failed test.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
