//! A process that holds and waits as it is told, line by line, and says what it saw.
//!
//! | line              | answer                                                                       |
//! |-------------------|------------------------------------------------------------------------------|
//! | `hold LOCK MS`    | `held TOKEN`; from then on its guard is asked without pause whether it is held |
//! | `keep LOCK MS`    | the same, and nobody asks                                                     |
//! | `run LOCK MS`     | `running TOKEN`, and `ran …` when it ends                                     |
//! | `wait LOCK`       | `waits`, and `got TOKEN` when it is its turn                                  |
//! | `facts`           | `facts YES POLL`: when the last question began that was answered with "held", and when work was last polled |
#![allow(clippy::unwrap_used, reason = "a test's own program says by panicking what is wrong")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{Client, Held};
use tokio::signal::unix::{SignalKind, signal};

/// The system's monotonic clock, which all processes share.
fn now() -> u64 {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(at.tv_sec).unwrap() * 1_000_000 + u64::try_from(at.tv_nsec).unwrap() / 1_000
}

#[derive(Default)]
struct Facts {
    yes: AtomicU64,
    poll: AtomicU64,
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let (url, prefix) = (arguments.next().unwrap(), arguments.next().unwrap());
    let client = Client::builder(&url).prefix(&prefix).label("holder").connect().await.unwrap();
    let facts = Arc::new(Facts::default());

    // The recipe of the guide.
    let mut term = signal(SignalKind::terminate()).unwrap();
    println!("ready");
    tokio::select! {
        () = serve(&client, &facts) => {}
        _ = term.recv() => {}
    }
    client.close_within(Duration::from_secs(10)).await;
    println!("closed");
}

async fn serve(client: &Client, facts: &Arc<Facts>) {
    // A thread of its own: a runtime does not end before its read of the standard input does.
    let (order, mut orders) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| order.send(line))
    });
    let mut guards = Vec::new();
    while let Some(line) = orders.recv().await {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["hold", lock, lease] => {
                let lease = Duration::from_millis(lease.parse().unwrap());
                let guard = client.lock(lock).unwrap().renewed(lease).unwrap().acquire().await.unwrap();
                println!("held {}", guard.token().sequence());
                look(guard.held(), facts.clone());
                guards.push(guard);
            }
            ["keep", lock, lease] => {
                let lease = Duration::from_millis(lease.parse().unwrap());
                let guard = client.lock(lock).unwrap().renewed(lease).unwrap().acquire().await.unwrap();
                println!("held {}", guard.token().sequence());
                guards.push(guard);
            }
            ["run", lock, lease] => {
                let lease = Duration::from_millis(lease.parse().unwrap());
                let lock = client.lock(lock).unwrap().renewed(lease).unwrap();
                let facts = facts.clone();
                tokio::spawn(async move {
                    let work = async move |held: Held| -> () {
                        println!("running {}", held.token().sequence());
                        loop {
                            facts.poll.store(now(), Ordering::SeqCst);
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                    };
                    let error = lock.run(work).await.err();
                    println!("ran {:?}", error.and_then(|error| error.lost_reason()));
                });
            }
            ["wait", lock] => {
                let lock = client.lock(lock).unwrap();
                tokio::spawn(async move {
                    let guard = lock.acquire().await.unwrap();
                    println!("got {}", guard.token().sequence());
                    std::future::pending::<()>().await;
                });
                println!("waits");
            }
            ["facts"] => {
                let (yes, poll) = (facts.yes.load(Ordering::SeqCst), facts.poll.load(Ordering::SeqCst));
                println!("facts {yes} {poll}");
            }
            _ => panic!("no such line: {line}"),
        }
    }
}

/// Asks the hold without pause, from a thread and from a task.
fn look(held: Held, facts: Arc<Facts>) {
    let (mine, its) = (held.clone(), facts.clone());
    std::thread::spawn(move || {
        loop {
            let began = now();
            if mine.is_held() {
                its.yes.fetch_max(began, Ordering::SeqCst);
            }
            let began = now();
            if !mine.remaining().is_zero() {
                its.yes.fetch_max(began, Ordering::SeqCst);
            }
            // Without a sleep: the first look after a stop should come before anybody else's.
            std::thread::yield_now();
        }
    });
    tokio::spawn(async move {
        loop {
            let began = now();
            if held.confirm().await.is_ok() {
                facts.yes.fetch_max(began, Ordering::SeqCst);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}
