//! Fencing tokens.
#![forbid(unsafe_code)]

/// Lua texts for scripts that issue tokens themselves.
pub mod lua {
    /// Issues one token: `INCR`, raised to the server's clock. Reads the locals `fence` (key), `now`
    /// (microseconds) and `fence_ttl` (milliseconds as text, `'0'` for plain numbering); leaves
    /// `token`, or `nil` and the error in `fault`. It is meant to be spliced into a script as it is.
    pub const ISSUE: &str = include_str!("issue.lua");
}
