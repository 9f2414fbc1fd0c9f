//! The stage: processes, cues and lines. Nothing here is needed to fence a write.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold_testkit::Server;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use crate::shop::{self, Stock};

type Outcome<T> = Result<T, Box<dyn Error>>;

const NAME: &str = "ORDER_SERVICE_REPLICA";
const DATABASE: &str = "ORDER_SERVICE_DATABASE";
const URL: &str = "LEASEHOLD_URL";

pub enum Role {
    Stage { redis: Option<String>, database: Option<String> },
    Replica { name: String, redis: String, database: String },
}

pub fn role() -> Role {
    let redis = env::var(URL).ok();
    let database = env::args().nth(1).or_else(|| env::var(DATABASE).ok());
    match (env::var(NAME).ok(), redis, database) {
        (Some(name), Some(redis), Some(database)) => Role::Replica { name, redis, database },
        (_, redis, database) => Role::Stage { redis, database },
    }
}

// In a replica's process.

/// Whether this replica is the one to be stopped.
static SLEEPY: AtomicBool = AtomicBool::new(false);

/// One line of the story. The stage adds who says it, and when.
pub fn say(text: &str) {
    println!("\t{text}");
}

/// The worst moment. The stage sends SIGSTOP while this thread, the only one that matters, sleeps.
pub fn pause_here(why: &str) {
    if SLEEPY.swap(false, Ordering::Relaxed) {
        say(why);
        println!("stop me");
        std::thread::sleep(Duration::from_secs(2));
    }
}

/// Does what the stage's lines ask for, until they end.
pub async fn replica(name: &str, redis: &str, database: &str) -> Outcome<()> {
    let client = shop::connect(redis, name).await?;
    let stock = Stock::open(database).await?;
    let mut cues = BufReader::new(tokio::io::stdin()).lines();
    println!("ready");
    while let Some(cue) = cues.next_line().await? {
        let (way, sleepy) = cue.split_once(' ').unwrap_or((&cue, ""));
        SLEEPY.store(sleepy == "sleepy", Ordering::Relaxed);
        match way {
            "bare" => shop::sell_without_lock(&stock).await?,
            "lock" => shop::sell_with_lock(&client, &stock).await?,
            _ => shop::sell_with_token(&client, &stock).await?,
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
    fn start(name: &str, redis: &str, database: &str, began: Instant) -> Outcome<Self> {
        let mut process = Command::new(env::current_exe()?)
            .env(NAME, name)
            .env(URL, redis)
            .env(DATABASE, database)
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
                match line.strip_prefix('\t') {
                    Some(text) => print(began, &label, text),
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

    async fn signal(&self, signal: &str) -> Outcome<()> {
        let id = self.process.id().ok_or("this replica has ended")?.to_string();
        let sent = Command::new("kill").args([signal, &id]).status().await?;
        if sent.success() { Ok(()) } else { Err(format!("kill {signal} failed").into()) }
    }
}

fn print(began: Instant, who: &str, text: &str) {
    println!("{:6.2} s  {who:<9}  {text}", began.elapsed().as_secs_f64());
}

pub async fn play(redis: Option<String>, database: Option<String>) -> Outcome<()> {
    let began = Instant::now();
    // Kept until the end: the server's process ends with it, and the file goes.
    let mut server = None;
    let redis = match redis {
        Some(url) => url,
        None => server.insert(Server::builder().own().try_start().await?).open_url(),
    };
    let file = TemporaryFile::new();
    let database = database.unwrap_or_else(|| file.0.display().to_string());
    let stock = Stock::open(&database).await?;
    stock.fill().await?;
    let mut replicas = Vec::new();
    for name in ["replica-1", "replica-2", "replica-3"] {
        replicas.push(Replica::start(name, &redis, &database, began)?);
    }
    for replica in &mut replicas {
        replica.until("ready").await?;
    }

    println!("\n1. No lock: all three read \"one left\", and all three sell it.");
    for replica in &mut replicas {
        replica.cue("bare").await?;
    }
    for replica in &mut replicas {
        replica.until("done").await?;
    }
    verdict(&stock, 3).await?;

    println!("\n2. A lock, lost in a pause: its holder was sure, and wakes up too late.");
    story(&mut replicas, &stock, "lock", began).await?;
    verdict(&stock, 2).await?;

    println!("\n3. The same, and the token goes with each write: the database refuses the late one.");
    story(&mut replicas, &stock, "token", began).await?;
    verdict(&stock, 1).await?;

    println!();
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

async fn story(replicas: &mut [Replica], stock: &Stock, way: &str, began: Instant) -> Outcome<()> {
    stock.fill().await?;
    let [first, others @ ..] = replicas else { return Err("no replicas".into()) };
    first.cue(&format!("{way} sleepy")).await?;
    first.until("stop me").await?;
    first.signal("-STOP").await?;
    for other in &mut *others {
        other.cue(way).await?;
        other.until("done").await?;
    }
    print(began, &first.name, "goes on where it was");
    first.signal("-CONT").await?;
    first.until("done").await
}

async fn verdict(stock: &Stock, expected: i64) -> Outcome<()> {
    let (left, sold) = stock.count().await?;
    let how = if sold > 1 { "OVERSOLD" } else { "as it should be" };
    println!("          => one article, sold {sold} times, {left} left: {how}");
    if sold == expected { Ok(()) } else { Err(format!("{expected} sales were to be shown").into()) }
}

struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new() -> Self {
        Self(env::temp_dir().join(format!("leasehold-orders-{}.sqlite", std::process::id())))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
