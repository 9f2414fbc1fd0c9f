//! P3: numbers that survive the loss of the counter; and where they do not, stores that refuse.

use std::time::Duration;

use leasehold_fencing::{FenceError, IssueError, Issuer, Memory, RepairError, Token, claim_repairing};
use leasehold_testkit::{Admin, Server, eventually};

use crate::support::redis::client;
use crate::support::tokens::token;

const HOUR_MICROS: u64 = 3600 * 1_000_000;

/// Every token ever issued in a run: no number twice, and none below an earlier one.
#[derive(Default)]
struct Ledger(Vec<Token>);

impl Ledger {
    async fn take_five(&mut self, what: &str, issuer: &Issuer) {
        for _ in 0..5 {
            let holder = u8::try_from(self.0.len() % 251).unwrap();
            let next = issuer.issue("job", [holder; 16]).await.unwrap();
            if let Some(last) = self.0.last() {
                assert!(next > *last, "after {what}: {next} is not above {last}");
            }
            self.0.push(next);
        }
    }
}

async fn clock(admin: &mut Admin) -> u64 {
    let time = admin.call(&["TIME"]).await.texts();
    time[0].parse::<u64>().unwrap() * 1_000_000 + time[1].parse::<u64>().unwrap()
}

#[tokio::test]
async fn tokens_rise_across_every_loss_of_the_counter() {
    let server = Server::builder().arg("appendonly", "yes").arg("appendfsync", "always").start().await;
    let mut admin = server.admin().await;
    let issuer = Issuer::new(client(&server).await);
    let mut ledger = Ledger::default();
    ledger.take_five("nothing", &issuer).await;

    admin.call(&["DEL", "{job}:fence"]).await;
    ledger.take_five("the counter was deleted", &issuer).await;
    admin.call(&["FLUSHALL"]).await;
    ledger.take_five("a flush", &issuer).await;
    admin.call(&["PEXPIRE", "{job}:fence", "1"]).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(issuer.current("job").await.unwrap(), None);
    ledger.take_five("the counter expired", &issuer).await;

    // A power cut: the tail of the log was never on the disk.
    let directory = admin.call(&["CONFIG", "GET", "dir"]).await.texts()[1].clone();
    let log = aof(&directory);
    let length = std::fs::metadata(&log).unwrap().len();
    ledger.take_five("nothing", &issuer).await;
    let lost = issuer.current("job").await.unwrap();
    server.kill().await;
    std::fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(length).unwrap();
    server.restart().await;
    wait(&issuer).await;
    assert!(issuer.current("job").await.unwrap() < lost, "the tail is gone");
    ledger.take_five("the log's tail was cut", &issuer).await;
}

fn aof(directory: &str) -> std::path::PathBuf {
    let folder = std::path::Path::new(directory).join("appendonlydir");
    let mut files = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    files.find(|file| file.to_string_lossy().ends_with(".incr.aof")).unwrap()
}

/// Until the client is connected again.
async fn wait(issuer: &Issuer) {
    eventually("the client is back", Duration::from_secs(10), async || issuer.current("job").await.is_ok())
        .await;
}

#[tokio::test]
async fn tokens_rise_across_a_restart_without_persistence_and_an_eviction() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let issuer = Issuer::new(client(&server).await);
    let mut ledger = Ledger::default();
    ledger.take_five("nothing", &issuer).await;
    server.restart().await;
    wait(&issuer).await;
    assert_eq!(issuer.current("job").await.unwrap(), None);
    ledger.take_five("a restart without persistence", &issuer).await;

    let mut admin2 = server.admin().await;
    let _ = &mut admin;
    admin2.call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    admin2.call(&["CONFIG", "SET", "maxmemory", "3mb"]).await;
    let filler = "x".repeat(10_000);
    for number in 0..1_000 {
        admin2.call(&["SET", &format!("filler:{number}"), &filler]).await;
    }
    assert_eq!(issuer.current("job").await.unwrap(), None, "evicted");
    ledger.take_five("an eviction", &issuer).await;
}

#[tokio::test]
async fn tokens_rise_across_the_promotion_of_a_replica_that_missed_writes() {
    let (primary, replica) = (Server::own().await, Server::own().await);
    let (on_primary, on_replica) = (Issuer::new(client(&primary).await), Issuer::new(client(&replica).await));
    let mut ledger = Ledger::default();
    ledger.take_five("nothing", &on_primary).await;

    let url = primary.open_url();
    let (user, password) =
        url.split_once("//").unwrap().1.split_once('@').unwrap().0.split_once(':').unwrap();
    let (host, port) = primary.address().rsplit_once(':').unwrap();
    let mut admin = replica.admin().await;
    admin.call(&["CONFIG", "SET", "masteruser", user]).await;
    admin.call(&["CONFIG", "SET", "masterauth", password]).await;
    admin.call(&["REPLICAOF", host, port]).await;
    let seen = ledger.0.last().unwrap().sequence();
    eventually("replicated", Duration::from_secs(10), async || {
        on_replica.current("job").await.ok().flatten() == Some(seen)
    })
    .await;
    admin.call(&["REPLICAOF", "NO", "ONE"]).await;

    // Both sides grant: the primary went on after the replica was cut off.
    ledger.take_five("the link was cut", &on_primary).await;
    ledger.take_five("the promotion", &on_replica).await;
    ledger.take_five("the split, old side", &on_primary).await;
    ledger.take_five("the split, new side", &on_replica).await;
}

/// Plain numbering has no floor: both sides of a split give out the same numbers, and the store tells
/// the two holders apart.
#[tokio::test]
async fn plain_numbers_given_twice_are_refused_as_duplicates_and_repaired() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let issuer = Issuer::new(client(&server).await).plain();
    let stock: Memory<u32> = Memory::new();
    let first = issuer.issue("job", [1; 16]).await.unwrap();
    assert_eq!(first.sequence(), 1);
    assert_eq!(admin.call(&["PTTL", "{job}:fence"]).await.int(), -1, "plain counters never expire");
    stock.claim(&first).unwrap();

    admin.call(&["DEL", "{job}:fence"]).await;
    let second = issuer.issue("job", [2; 16]).await.unwrap();
    assert_eq!(second.sequence(), 1);
    assert!(matches!(stock.claim(&second), Err(FenceError::Duplicate { .. })));
    let rounds = std::cell::Cell::new(0);
    let (repaired, claim) = claim_repairing(&issuer, second, async |token| {
        rounds.set(rounds.get() + 1);
        stock.claim(&token)
    })
    .await
    .unwrap();
    assert_eq!((repaired.sequence(), rounds.get()), (2, 2));
    claim.update(|left| *left = Some(1)).unwrap();
}

/// A clock that goes back by an hour at a promotion looks like this from here: the store has seen a
/// token an hour ahead of the server's clock, and the counter is gone.
#[tokio::test]
async fn a_clock_an_hour_back_is_refused_as_stale_and_repaired_within_three_rounds() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let issuer = Issuer::new(client(&server).await);
    let stock: Memory<u32> = Memory::new();
    let ahead = token("job", clock(&mut admin).await + HOUR_MICROS, 1);
    stock.claim(&ahead).unwrap();

    let late = issuer.issue("job", [2; 16]).await.unwrap();
    assert!(matches!(stock.claim(&late), Err(FenceError::Stale { .. })));
    let rounds = std::cell::Cell::new(0);
    let (repaired, _) = claim_repairing(&issuer, late, async |token| {
        rounds.set(rounds.get() + 1);
        // Somebody else repairs at the same time, once.
        if rounds.get() == 2 {
            let rival = issuer.issue("job", [3; 16]).await.unwrap();
            stock.claim(&rival).unwrap();
        }
        stock.claim(&token)
    })
    .await
    .unwrap();
    assert!(repaired > ahead && rounds.get() <= 4, "{repaired}");
    let next = issuer.issue("job", [4; 16]).await.unwrap();
    assert!(next > repaired, "the counter stays ahead of the clock");

    // A store that refuses everything is not asked for ever.
    let calls = std::cell::Cell::new(0);
    let outcome = claim_repairing(&issuer, next, async |token| {
        calls.set(calls.get() + 1);
        Err::<(), _>(FenceError::<std::convert::Infallible>::Stale { stored: token.mark(), ours: token })
    })
    .await;
    assert!(matches!(outcome, Err(RepairError::Claim(FenceError::Stale { .. }))));
    assert_eq!(calls.get(), 4, "once, and three repairs");
}

/// The documented bound: a clock behind by less than the time since the last token does no harm.
#[tokio::test]
async fn a_clock_two_seconds_back_costs_two_seconds() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let issuer = Issuer::new(client(&server).await);
    let ahead = clock(&mut admin).await + 2_000_000;
    assert_eq!(issuer.raise("job", ahead).await.unwrap(), ahead);
    let last = issuer.issue("job", [1; 16]).await.unwrap();
    assert!(last.sequence() > ahead);
    admin.call(&["DEL", "{job}:fence"]).await;
    assert!(issuer.issue("job", [2; 16]).await.unwrap() < last, "within the two seconds");
    tokio::time::sleep(Duration::from_millis(2_050)).await;
    assert!(issuer.issue("job", [3; 16]).await.unwrap() > last);
}

#[tokio::test]
async fn numbers_are_whole_up_to_the_last_one() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let issuer = Issuer::new(client(&server).await);
    // Steps of one at sixteen digits: Lua's own formatting would round to thousands.
    let start = clock(&mut admin).await + HOUR_MICROS + 7;
    assert_eq!(issuer.raise("job", start).await.unwrap(), start);
    for step in 1..=3 {
        assert_eq!(issuer.issue("job", [1; 16]).await.unwrap().sequence(), start + step);
    }
    assert_eq!(issuer.current("job").await.unwrap(), Some(start + 3));
    assert_eq!(issuer.raise("job", 5).await.unwrap(), start + 3, "never lowered");

    for (count, works) in [
        ("9007199254740989", true),
        ("9007199254740990", false),
        ("9007199254740991", false),
        ("9223372036854775807", false),
        ("-5", false),
        ("nonsense", false),
    ] {
        admin.call(&["SET", "{job}:fence", count]).await;
        let outcome = issuer.issue("job", [1; 16]).await;
        assert_eq!(outcome.is_ok(), works, "{count}: {outcome:?}");
        if let Err(error) = outcome {
            assert!(matches!(error, IssueError::BrokenCounter(_)), "{count}: {error:?}");
        }
    }
    admin.call(&["DEL", "{job}:fence"]).await;
    admin.call(&["LPUSH", "{job}:fence", "x"]).await;
    assert!(matches!(issuer.issue("job", [1; 16]).await, Err(IssueError::BrokenCounter(_))));
}

#[tokio::test]
async fn an_absurd_mark_does_not_poison_the_counter() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let floored = Issuer::new(client(&server).await);
    let now = clock(&mut admin).await;
    let decade = 10 * 366 * 24 * HOUR_MICROS;
    for absurd in [now + decade + HOUR_MICROS, Token::MAX_SEQUENCE, u64::MAX] {
        assert!(matches!(floored.raise("job", absurd).await, Err(IssueError::AbsurdMark(_))), "{absurd}");
    }
    assert_eq!(floored.current("job").await.unwrap(), None);
    floored.raise("job", now + decade - HOUR_MICROS).await.unwrap();
    // A floored mark is no plain one: 1.8e15 is far ahead of a counter that counts holds.
    let plain = Issuer::new(client(&server).await).plain();
    assert!(matches!(plain.raise("plain", now).await, Err(IssueError::AbsurdMark(_))));
    assert_eq!(plain.raise("plain", 41).await.unwrap(), 41);
    assert_eq!(plain.issue("plain", [1; 16]).await.unwrap().sequence(), 42);
    assert_eq!(admin.call(&["PTTL", "{plain}:fence"]).await.int(), -1);
    let left = admin.call(&["PTTL", "{job}:fence"]).await.int();
    assert!((86_000_000..=86_400_000).contains(&left), "a day: {left}");
}
