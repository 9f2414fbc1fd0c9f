//! A server process that cannot outlive its test.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;

/// A server process and its watchdog.
///
/// Dropping it kills the server. A test process that is itself killed drops nothing: then the watchdog, a
/// shell that waits for the end of a pipe which only this process holds open, kills the server and removes
/// its folder. Both run in process groups of their own, so that a signal to the test's group spares the
/// watchdog. (`PR_SET_PDEATHSIG` would be tied to the thread that started the server, not to the process.)
pub(crate) struct Process {
    server: Child,
    watchdog: Child,
}

impl Process {
    /// Starts `binary` with the configuration file and log in `folder`.
    pub(crate) fn spawn(binary: &Path, folder: &Path) -> Result<Self, Error> {
        let failed = |what: &Path, error: std::io::Error| Error::new(format!("{}: {error}", what.display()));
        let log = File::options().create(true).append(true).open(folder.join("log"));
        let log = log.map_err(|error| failed(folder, error))?;
        let copy = log.try_clone().map_err(|error| failed(folder, error))?;
        let mut server = Command::new(binary)
            .arg(folder.join("server.conf"))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(copy)
            .process_group(0)
            .spawn()
            .map_err(|error| failed(binary, error))?;
        let watchdog = Command::new("sh")
            .args(["-c", r#"read -r _; kill -9 "$1"; rm -rf "$2""#, "leasehold-test-watchdog"])
            .arg(server.id().to_string())
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match watchdog {
            Ok(watchdog) => Ok(Self { server, watchdog }),
            Err(error) => {
                end(&mut server);
                Err(failed(Path::new("sh"), error))
            }
        }
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
        end(&mut self.watchdog);
        end(&mut self.server);
    }
}

fn end(child: &mut Child) {
    // Both fail only when the child is gone already, which is what is wanted.
    let _gone = child.kill();
    let _gone = child.wait();
}
