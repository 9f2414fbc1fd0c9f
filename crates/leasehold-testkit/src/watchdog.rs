//! What happens when a test process is killed and drops nothing.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::error::Error;

/// A shell that waits for the end of a pipe which only this process holds open, then runs its script.
///
/// It has a process group of its own, so that a signal to the test's group spares it. Dropping this value
/// ends it without running the script. (`PR_SET_PDEATHSIG` would be tied to the thread that started a
/// server, not to the process, and there is no such thing elsewhere.)
pub(crate) struct Watchdog(Child);

impl Watchdog {
    /// `script` finds `args` as `$1` and on.
    pub(crate) fn set(script: &str, args: &[&OsStr]) -> Result<Self, Error> {
        let child = Command::new("sh")
            .args(["-c", &format!("read -r _; {script}"), "leasehold-test-watchdog"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        child.map(Self).map_err(|error| Error::new(format!("sh: {error}")))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Killed first: `wait` closes the pipe, and that would set it off.
        // Both fail only when it is gone already, which is what is wanted.
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}
