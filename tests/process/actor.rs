//! The other end of `holder`: its process, and what is said to it.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use leasehold_testkit::{Server, eventually, patience};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Far from what anything takes here, and below the default lease of 30 s: what happens within it was
/// done by a command and not by an expiry.
pub(crate) const SOON: Duration = Duration::from_secs(15);

/// The system's monotonic clock in microseconds, as the process reads it.
pub(crate) fn now() -> u64 {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(at.tv_sec).unwrap() * 1_000_000 + u64::try_from(at.tv_nsec).unwrap() / 1_000
}

/// The process; killed when dropped.
pub(crate) struct Actor {
    process: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// What it has seen so far.
#[derive(Debug)]
pub(crate) struct Facts {
    /// When the last question began that was answered with "held".
    pub(crate) yes: u64,
    /// When work under its lock was last polled.
    pub(crate) poll: u64,
}

impl Actor {
    pub(crate) async fn start(server: &Server) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_holder"))
            .args([&server.url(), server.prefix()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let orders = process.stdin.take().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut actor = Self { process, orders, lines };
        actor.says("ready").await;
        actor
    }

    pub(crate) async fn told(&mut self, order: &str) {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.unwrap();
    }

    /// The rest of its next line, which begins with `word`.
    pub(crate) async fn says(&mut self, word: &str) -> String {
        let line = tokio::time::timeout(patience(SOON * 2), self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("it never said {word:?}")).unwrap();
        let line = line.unwrap_or_else(|| panic!("it ended before it said {word:?}"));
        match line.strip_prefix(word) {
            Some(rest) => rest.trim_start().to_owned(),
            None => panic!("it said {line:?} and not {word:?}"),
        }
    }

    /// Says `order`, and reads a number behind the `word` of the answer.
    pub(crate) async fn number(&mut self, order: &str, word: &str) -> u64 {
        self.told(order).await;
        self.says(word).await.parse().unwrap()
    }

    pub(crate) async fn facts(&mut self) -> Facts {
        self.told("facts").await;
        let text = self.says("facts").await;
        let (yes, poll) = text.split_once(' ').unwrap();
        Facts { yes: yes.parse().unwrap(), poll: poll.parse().unwrap() }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id().unwrap()).unwrap()).unwrap()
    }

    /// SIGSTOP, and returns when all of its threads stand still.
    pub(crate) async fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        let tasks = format!("/proc/{}/task", self.process.id().unwrap());
        eventually("the process stands still", SOON, async || {
            std::fs::read_dir(&tasks).unwrap().all(|task| {
                let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
                stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
            })
        })
        .await;
    }

    /// SIGCONT.
    pub(crate) fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// SIGTERM.
    pub(crate) fn end(&self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
    }

    /// SIGKILL.
    pub(crate) async fn kill(&mut self) {
        self.process.kill().await.unwrap();
    }

    pub(crate) async fn ended(&mut self) -> ExitStatus {
        tokio::time::timeout(patience(SOON), self.process.wait()).await.expect("it ends").unwrap()
    }
}
