//! A server inside a Python wheel, for a machine that has Rust and Python and no more.

use std::path::PathBuf;

use crate::error::Error;

pub(crate) async fn find() -> Result<PathBuf, Error> {
    Err(Error::new("pip cannot download a server"))
}
