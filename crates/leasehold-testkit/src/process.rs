//! A server process that cannot outlive its test.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;
use crate::watchdog::Watchdog;

/// A server process, killed on drop or by its watchdog.
pub(crate) struct Process {
    watchdog: Option<Watchdog>,
    server: Child,
}

impl Process {
    /// Starts `binary` with the configuration file and log in `folder`.
    pub(crate) fn spawn(binary: &Path, folder: &Path) -> Result<Self, Error> {
        let failed = |what: &Path, error: std::io::Error| Error::new(format!("{}: {error}", what.display()));
        let log = File::options().create(true).append(true).open(folder.join("log"));
        let log = log.map_err(|error| failed(folder, error))?;
        let copy = log.try_clone().map_err(|error| failed(folder, error))?;
        let server = Command::new(binary)
            .arg(folder.join("server.conf"))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(copy)
            .process_group(0)
            .spawn()
            .map_err(|error| failed(binary, error))?;
        let mut process = Self { watchdog: None, server };
        let id = process.server.id().to_string();
        let args = [id.as_ref(), folder.as_os_str()];
        process.watchdog = Some(Watchdog::set(r#"kill -9 "$1"; rm -rf "$2""#, &args)?);
        Ok(process)
    }

    /// Whether the process has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.server.try_wait(), Ok(None))
    }

    pub(crate) fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)
    }

    pub(crate) fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        // Not yet waited for, so the number cannot belong to another process.
        kill_process(Pid::from_child(&self.server), signal)
            .map_err(|error| Error::new(format!("the server's process: {error}")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watchdog first: once the server is waited for, its number may be anybody's.
        self.watchdog = None;
        // Both fail only when it is gone already, which is what is wanted.
        let _gone = self.server.kill();
        let _gone = self.server.wait();
    }
}
