//! Another process, to be stopped or killed: the test binary itself, run again with a part to play.
//!
//! A binary that uses it has this test, which does nothing in an ordinary run:
//!
//! ```no_run
//! #[test]
//! fn child_process() {
//!     leasehold_tests::child::play();
//! }
//! ```

use std::env;
use std::future::pending;
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold::Client;
use leasehold_testkit::Server;
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;

const PART: &str = "LEASEHOLD_TEST_CHILD";

/// A part to play.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// Takes the lock, and keeps it for as long as it lives.
    Holder,
    /// So many clients wait for it, and release it at once when it is theirs.
    Waiters(usize),
}

/// The process. It is killed when this value is dropped.
pub struct Child(std::process::Child);

impl Child {
    /// Starts it. What it has done is for the server to say.
    ///
    /// # Panics
    ///
    /// When the test binary cannot be run again.
    #[must_use]
    pub fn start(part: Part, server: &Server, lock: &str, lease: Duration) -> Self {
        let (name, count) = match part {
            Part::Holder => ("holder", 1),
            Part::Waiters(count) => ("waiters", count),
        };
        let lease = lease.as_millis();
        let child = Command::new(env::current_exe().expect("the test binary has a path"))
            .args(["child_process", "--exact", "--nocapture"])
            .env(PART, format!("{name} {count} {lease} {} {} {lock}", server.url(), server.prefix()))
            .stdout(Stdio::null())
            .spawn();
        Self(child.expect("the test binary runs again"))
    }

    /// SIGKILL: its connections are closed by the system.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }

    /// SIGSTOP: its connections stay open, and it is silent.
    ///
    /// # Panics
    ///
    /// When it has ended.
    pub fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).expect("it runs");
    }

    /// SIGCONT.
    ///
    /// # Panics
    ///
    /// When it has ended.
    pub fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).expect("it is stopped");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Plays the part that the environment gives, if it does.
///
/// # Panics
///
/// When it cannot.
pub fn play() {
    let Ok(part) = env::var(PART) else { return };
    let words: Vec<&str> = part.split(' ').collect();
    let [part, count, lease, url, prefix, lock] = words[..] else { panic!("a part of {words:?}") };
    let (count, lease): (usize, u64) = (count.parse().expect("a number"), lease.parse().expect("ms"));
    let (url, prefix, lock) = (url.to_owned(), prefix.to_owned(), lock.to_owned());
    let holds = part == "holder";
    tokio::runtime::Runtime::new().expect("a runtime").block_on(async move {
        let mut clients = JoinSet::new();
        for _ in 0..count {
            let (url, prefix, lock) = (url.clone(), prefix.clone(), lock.clone());
            clients.spawn(async move {
                let client =
                    Client::builder(&url).prefix(&prefix).connect().await.expect("the client connects");
                let lock = client.lock(&lock).expect("a name").renewed(Duration::from_millis(lease));
                let guard = lock.expect("a lease").acquire().await.expect("it comes to hold");
                if holds {
                    pending::<()>().await;
                }
                guard.release().await.expect("the server answers")
            });
        }
        clients.join_all().await;
    });
}
