//! Three replicas of a service, one report a day, and invoices that go out one replica at a time.
//!
//! ```text
//! cargo run --example daily_report                          # starts a server of its own
//! cargo run --example daily_report -- redis://127.0.0.1     # or LEASEHOLD_URL=redis://127.0.0.1
//! ```
//!
//! The module `service` is what a program of yours would contain. The module `staging` only starts
//! three real processes of it, gives them their cues, kills one, and prints what they say.
#![allow(unreachable_pub, reason = "its modules read like those of a program")]

use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match staging::role() {
        staging::Role::Replica { name, url } => staging::replica(&name, &url).await,
        staging::Role::Stage { url } => staging::play(url).await,
    }
}

/// The part to copy.
mod service {
    use std::time::Duration;

    use leasehold::{Attempt, Client, Error, Holder, Outcome, Token};

    use crate::staging::say;

    /// How long a lock stays taken when its holder dies. Short, so that the story is; 30 s is the
    /// default.
    const LEASE: Duration = Duration::from_millis(1_500);

    /// Once per process. The label is what others see of its holds.
    pub async fn connect(url: &str, label: &str) -> Result<Client, Error> {
        Client::builder(url).label(label).lease(LEASE).connect().await
    }

    /// All replicas come here at the same time of the day; one writes the report, the others skip.
    pub async fn daily_report(client: &Client) -> Result<(), Error> {
        let lock = client.lock("lock:daily-report")?;
        let guard = match lock.try_acquire().await? {
            Attempt::Acquired(guard) => guard,
            Attempt::Busy(busy) => {
                let token = busy.holder().and_then(Holder::client).map_or(0, leasehold::ClientHolder::token);
                say(token, &format!("skips the report: {busy}"));
                return Ok(());
            }
        };
        say(guard.token().sequence(), "has lock:daily-report and writes the report");

        // This takes longer than several leases. There is nothing to do for it: the lease is renewed
        // in the background as long as the guard lives.
        for page in 1..=10 {
            write_page(page, &guard.token()).await;
            if !guard.is_held() {
                say(guard.token().sequence(), "has lost the lock, and stops");
                return Ok(());
            }
        }

        // Anything but `Released`: somebody else may have worked at the same time. What protects the
        // data then is the token that went with every write.
        let token = guard.token().sequence();
        let outcome = guard.release().await?;
        if outcome != Outcome::Released {
            say(token, &format!("was not alone, perhaps: {outcome:?}"));
        }
        Ok(())
    }

    async fn write_page(page: u32, token: &Token) {
        // Here the write goes out, with its token, to a store that refuses smaller ones.
        tokio::time::sleep(Duration::from_millis(500)).await;
        say(token.sequence(), &format!("page {page} of the report is written"));
    }

    /// Every replica sends its invoices, one after the other, in the order in which they came.
    pub async fn send_invoices(client: &Client, batches: u32) -> Result<(), Error> {
        let lock = client.lock("lock:invoices")?;
        // Waits without polling. Should the lock get lost, the work is dropped at its next await.
        let done = lock
            .run(|held| async move {
                let token = held.token().sequence();
                say(token, "has lock:invoices, its turn");
                for _ in 0..batches {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                say(token, &format!("has sent {batches} batches"));
                token
            })
            .await?;
        // How the work ended and how the hold ended are two things: `output` and `release`.
        if done.release? != Outcome::Released {
            say(done.output, "was not alone, perhaps");
        }
        Ok(())
    }
}

/// The stage: processes, cues and lines. Nothing here is needed to use a lock.
mod staging {
    use std::env;
    use std::error::Error;
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    use leasehold::Lock;
    use leasehold_testkit::Server;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::process::{Child, ChildStdin, Command};
    use tokio::sync::mpsc;

    use crate::service;

    type Outcome<T> = Result<T, Box<dyn Error>>;

    const NAME: &str = "DAILY_REPORT_REPLICA";
    const URL: &str = "LEASEHOLD_URL";

    pub enum Role {
        Stage { url: Option<String> },
        Replica { name: String, url: String },
    }

    pub fn role() -> Role {
        let url = env::args().nth(1).or_else(|| env::var(URL).ok());
        match (env::var(NAME), url) {
            (Ok(name), Some(url)) => Role::Replica { name, url },
            (_, url) => Role::Stage { url },
        }
    }

    // In a replica's process.

    /// One line of the story. The stage adds who says it, and when.
    pub fn say(token: u64, text: &str) {
        println!("{token}\t{text}");
    }

    /// Does what the stage's lines ask for, until they end.
    pub async fn replica(name: &str, url: &str) -> Outcome<()> {
        let client = service::connect(url, name).await?;
        let mut cues = BufReader::new(tokio::io::stdin()).lines();
        println!("ready");
        while let Some(cue) = cues.next_line().await? {
            match cue.split_once(' ') {
                Some(("invoices", batches)) => service::send_invoices(&client, batches.parse()?).await?,
                _ => service::daily_report(&client).await?,
            }
            println!("done");
        }
        client.close_within(Duration::from_secs(5)).await;
        Ok(())
    }

    // In the stage's process.

    struct Replica {
        name: String,
        process: Child,
        cues: Option<ChildStdin>,
        marks: mpsc::UnboundedReceiver<String>,
    }

    impl Replica {
        /// Starts this program once more, as a replica.
        fn start(name: &str, url: &str, began: Instant) -> Outcome<Self> {
            let mut process = Command::new(env::current_exe()?)
                .env(NAME, name)
                .env(URL, url)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            let cues = process.stdin.take();
            let mut lines = BufReader::new(process.stdout.take().ok_or("a replica without output")?).lines();
            let (told, marks) = mpsc::unbounded_channel();
            let label = name.to_owned();
            tokio::spawn(async move {
                while let Ok(Some(line)) = lines.next_line().await {
                    match line.split_once('\t') {
                        Some((token, text)) => print(began, &label, token, text),
                        None => drop(told.send(line)),
                    }
                }
            });
            Ok(Self { name: name.to_owned(), process, cues, marks })
        }

        async fn cue(&mut self, cue: &str) -> Outcome<()> {
            let cues = self.cues.as_mut().ok_or("no more cues for this replica")?;
            Ok(cues.write_all(format!("{cue}\n").as_bytes()).await?)
        }

        async fn until(&mut self, mark: &str) -> Outcome<()> {
            match self.marks.recv().await {
                Some(told) if told == mark => Ok(()),
                Some(told) => Err(format!("{}: {told}", self.name).into()),
                None => Err(format!("{} ended early", self.name).into()),
            }
        }
    }

    fn print(began: Instant, who: &str, token: impl std::fmt::Display, text: &str) {
        println!("{:6.2} s  {who:<9}  token {token}  {text}", began.elapsed().as_secs_f64());
    }

    pub async fn play(url: Option<String>) -> Outcome<()> {
        let began = Instant::now();
        // Kept until the end: the server's process ends with it.
        let mut server = None;
        let url = match url {
            Some(url) => url,
            None => server.insert(Server::builder().own().try_start().await?).open_url(),
        };
        let mut replicas = Vec::new();
        for name in ["replica-1", "replica-2", "replica-3"] {
            replicas.push(Replica::start(name, &url, began)?);
        }
        for replica in &mut replicas {
            replica.until("ready").await?;
        }

        println!("\nOne report a day: all three try at the same moment.");
        for replica in &mut replicas {
            replica.cue("report").await?;
        }
        for replica in &mut replicas {
            replica.until("done").await?;
        }

        let client = service::connect(&url, "stage").await?;
        let lock = client.lock("lock:invoices")?;

        println!("\nInvoices: the stage holds the lock until all three wait; first come, first served.");
        let guard = lock.acquire().await?;
        print(began, "stage", guard.token().sequence(), "has lock:invoices");
        for (place, turn) in [(1, 2), (2, 0), (3, 1)] {
            let replica = &mut replicas[turn];
            replica.cue("invoices 2").await?;
            queued(began, &lock, &replica.name, place).await?;
        }
        let _ = guard.release().await?;
        for replica in &mut replicas {
            replica.until("done").await?;
        }

        println!("\nThe holder is killed: the next one takes over when its lease ends.");
        replicas[2].cue("invoices 1000").await?;
        while lock.inspect().await?.is_free() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for (place, turn) in [(1, 0), (2, 1)] {
            let replica = &mut replicas[turn];
            replica.cue("invoices 2").await?;
            queued(began, &lock, &replica.name, place).await?;
        }
        let mut killed = replicas.pop().ok_or("no replica to kill")?;
        killed.process.kill().await?;
        print(began, &killed.name, holder(&lock).await?, "is killed (SIGKILL)");
        for replica in &mut replicas {
            replica.until("done").await?;
        }

        println!();
        client.close_within(Duration::from_secs(5)).await;
        for mut replica in replicas {
            // The end of its cues is the end of its work.
            replica.cues = None;
            let status = replica.process.wait().await?;
            if !status.success() {
                return Err(format!("{} ended with {status}", replica.name).into());
            }
        }
        Ok(())
    }

    /// Returns when so many wait, and says who came last.
    async fn queued(began: Instant, lock: &Lock, name: &str, place: u64) -> Outcome<()> {
        loop {
            if let Some(hold) = lock.inspect().await?.held()
                && hold.waiters() == place
            {
                let holder = hold.holder();
                print(began, name, holder.token(), &format!("waits at place {place}, held by {holder}"));
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn holder(lock: &Lock) -> Outcome<u64> {
        Ok(lock.inspect().await?.held().map_or(0, |hold| hold.holder().token()))
    }
}
