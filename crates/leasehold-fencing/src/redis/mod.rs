//! Redis and Valkey themselves: the mark and one command, in one script.

mod command;
mod fence;

pub use command::FencedCommand;
pub use fence::{RedisClaim, RedisFence};
