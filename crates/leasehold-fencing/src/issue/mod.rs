//! Issuing tokens without a lock.

mod error;
mod issuer;
mod key;

pub use error::IssueError;
pub use issuer::Issuer;
