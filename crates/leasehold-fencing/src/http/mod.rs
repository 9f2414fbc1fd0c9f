//! Tokens over HTTP: a tower layer for the service that checks, another for the client that sends.

mod attach;
mod header;
mod layer;
mod problem;

pub use attach::{AttachError, AttachLayer, AttachService, NotHeld, attach};
pub use header::{FENCE_TOKEN, HeaderError, forward, token_of};
pub use layer::{FenceLayer, FenceService};
pub use problem::problem;
