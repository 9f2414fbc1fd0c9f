//! An uncontended acquire and release, beside the same two scripts sent bare by fred.
//!
//! The floor is what the library itself sent: its two commands are read from the server's slow log and
//! sent again as they were, by a client with the same connection settings. The rounds of the two take
//! turns, so that a machine that speeds up or slows down does so for both.

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use fred::prelude::{Builder, Client as Fred, ClientLike, Config};
use fred::types::{ClusterHash, CustomCommand, Value};
use leasehold::{Client, Lock};
use leasehold_testkit::{Admin, Server};

const ROUNDS: usize = 11;
const PAIRS: u32 = 3_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start().await;
    let client = Client::builder(&server.url()).prefix(server.prefix()).connect().await?;
    let lock = client.lock("bench")?;
    let [take, pass] = recorded(&server, &lock).await?;
    let fred = bare(&server).await?;

    library(&lock, PAIRS).await?;
    floor(&fred, &take, &pass, PAIRS).await?;
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        ours.push(library(&lock, PAIRS).await?);
        floors.push(floor(&fred, &take, &pass, PAIRS).await?);
        eprintln!("round {round} of {ROUNDS}: {:?} beside {:?}", ours[round - 1], floors[round - 1]);
    }
    let mut ratios: Vec<f64> =
        ours.iter().zip(&floors).map(|(ours, floor)| ours.as_secs_f64() / floor.as_secs_f64()).collect();
    ratios.sort_by(f64::total_cmp);
    ours.sort();
    floors.sort();
    let middle = ROUNDS / 2;
    println!("uncontended acquire + release, one task, on {} ({ROUNDS} rounds of {PAIRS})", server.version());
    println!("  library  {:>10.1?}", ours[middle]);
    println!("  floor    {:>10.1?}   the same two scripts, bare", floors[middle]);
    println!("  ratio    {:>10.3}   {:.3} to {:.3}", ratios[middle], ratios[0], ratios[ROUNDS - 1]);
    client.close_within(Duration::from_secs(1)).await;
    fred.quit().await?;
    Ok(())
}

async fn library(lock: &Lock, pairs: u32) -> Result<Duration, Box<dyn Error>> {
    let began = Instant::now();
    for _ in 0..pairs {
        let guard = lock.try_acquire().await?.acquired().ok_or("the lock is free")?;
        let _ = black_box(guard.release().await?);
    }
    Ok(began.elapsed() / pairs)
}

async fn floor(
    fred: &Fred,
    take: &[String],
    pass: &[String],
    pairs: u32,
) -> Result<Duration, Box<dyn Error>> {
    let evalsha = CustomCommand::new_static("EVALSHA", ClusterHash::FirstKey, false);
    let began = Instant::now();
    for _ in 0..pairs {
        let taken: Value = fred.custom(evalsha.clone(), take.to_vec()).await?;
        let passed: Value = fred.custom(evalsha.clone(), pass.to_vec()).await?;
        black_box((taken, passed));
    }
    Ok(began.elapsed() / pairs)
}

async fn bare(server: &Server) -> Result<Fred, Box<dyn Error>> {
    let fred = Builder::from_config(Config::from_url(&server.url())?)
        .with_connection_config(|connection| {
            connection.tcp.nodelay = Some(true);
            connection.max_command_attempts = 1;
        })
        .with_performance_config(|performance| performance.default_command_timeout = Duration::from_secs(1))
        .build()?;
    fred.init().await?;
    Ok(fred)
}

/// The words of the two commands behind `EVALSHA`, as the library sent them.
async fn recorded(server: &Server, lock: &Lock) -> Result<[Vec<String>; 2], Box<dyn Error>> {
    // Once before, so that the server has the scripts.
    library(lock, 1).await?;
    let mut admin: Admin = server.admin().await;
    admin.call(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
    admin.call(&["SLOWLOG", "RESET"]).await;
    library(lock, 1).await?;
    admin.call(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]).await;
    let entries = admin.call(&["SLOWLOG", "GET", "16"]).await.array();
    let mut calls: Vec<Vec<String>> = entries
        .iter()
        .filter_map(|entry| entry.array().get(3).map(leasehold_testkit::Reply::texts))
        .filter(|words| words.first().is_some_and(|word| word.eq_ignore_ascii_case("evalsha")))
        .map(|words| words[1..].to_vec())
        .collect();
    // The newest comes first.
    match (calls.pop(), calls.pop(), calls.is_empty()) {
        (Some(take), Some(pass), true) => Ok([take, pass]),
        _ => Err("the slow log does not show two calls".into()),
    }
}
