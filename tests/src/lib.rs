//! Promises, proved on real servers.
