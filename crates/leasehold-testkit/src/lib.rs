//! A server as a value.
