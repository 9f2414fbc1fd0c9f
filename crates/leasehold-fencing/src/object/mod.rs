//! Objects in S3, Google Cloud Storage, Azure, or whatever else `object_store` knows.

mod envelope;
mod fence;

pub use envelope::content_of;
pub use fence::{FencedObject, ObjectFence};
