//! Fencing tokens.
#![forbid(unsafe_code)]
