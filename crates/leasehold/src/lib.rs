//! Distributed locks on Redis and Valkey.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod key;
mod owner;
mod server;
