//! What Redisson's own tests check of a lock under many owners: no update is lost, no channel stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{Attempt, Client, Lock, Outcome};
use leasehold_testkit::{Server, eventually};
use leasehold_tests::{client, options, take};
use tokio::task::JoinSet;

use crate::support::{SOON, ms, until_waiting};

/// A count that only a lock keeps whole: read, let others run, write.
#[derive(Clone, Default)]
struct Count(Arc<AtomicU64>);

impl Count {
    async fn add_one(&self, hold: Duration) {
        let read = self.0.load(Ordering::Relaxed);
        if hold.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(hold).await;
        }
        self.0.store(read + 1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A client that is patient: here many share two cores, and it is not the time-out that is tested.
async fn patient(server: &Server) -> Client {
    options(server).command_timeout(Duration::from_secs(20)).connect().await.unwrap()
}

async fn rounds(lock: Lock, count: Count, rounds: usize, hold: Duration) {
    for _ in 0..rounds {
        let guard = lock.acquire().await.unwrap();
        count.add_one(hold).await;
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

#[tokio::test]
async fn conf_1_concurrency_single_instance() {
    let server = Server::start().await;
    let client = patient(&server).await;
    let count = Count::default();
    let mut tasks = JoinSet::new();
    for _ in 0..15 {
        tasks.spawn(rounds(client.lock("a").unwrap(), count.clone(), 1, Duration::ZERO));
    }
    tasks.join_all().await;
    assert_eq!(count.get(), 15);
}

#[tokio::test]
async fn conf_1_concurrency_loop_multi_instance() {
    let server = Server::start().await;
    let count = Count::default();
    let mut tasks = JoinSet::new();
    for _ in 0..16 {
        let lock = patient(&server).await.lock("a").unwrap();
        tasks.spawn(rounds(lock, count.clone(), 100, ms(10)));
    }
    tasks.join_all().await;
    assert_eq!(count.get(), 1_600);
}

#[tokio::test]
async fn conf_1_concurrency_multi_instance() {
    let server = Server::start().await;
    let count = Count::default();
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        let lock = patient(&server).await.lock("a").unwrap();
        tasks.spawn(rounds(lock, count.clone(), 1, ms(1)));
    }
    tasks.join_all().await;
    assert_eq!(count.get(), 100);
}

/// 16 tasks of 10,000 rounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conf_1_concurrency_try_lock_unlock() {
    let server = Server::own().await;
    let client = patient(&server).await;
    let count = Count::default();
    let won = Count::default();
    let mut tasks = JoinSet::new();
    for _ in 0..16 {
        let lock = client.lock("a").unwrap();
        let (count, won) = (count.clone(), won.clone());
        tasks.spawn(async move {
            for _ in 0..10_000 {
                if let Attempt::Acquired(guard) = lock.try_acquire().await.unwrap() {
                    won.0.fetch_add(1, Ordering::Relaxed);
                    count.add_one(Duration::ZERO).await;
                    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
                }
            }
        });
    }
    tasks.join_all().await;
    assert!(won.get() > 100, "{}", won.get());
    assert_eq!(count.get(), won.get(), "no lost update");
    // A held lock always has a renewal entry: after all that, it still outlives its lease.
    let guard = take(&client.lock("a").unwrap().renewed(ms(1_500)).unwrap()).await;
    tokio::time::sleep(ms(4_000)).await;
    assert!(guard.confirm().await.is_ok());
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

/// 32 threads, 5,000 operations, 5 names, one connection for pushes.
#[tokio::test]
async fn conf_1_subscriptions_per_connection() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = patient(&server).await;
    let other = patient(&server).await;
    let mut tasks = JoinSet::new();
    for n in 0..32 {
        let client = if n % 4 == 0 { other.clone() } else { client.clone() };
        tasks.spawn(async move {
            let mut busy = 0;
            for op in 0..(5_000_usize.div_ceil(32)) {
                let lock = client.lock(&format!("a{}", (n + op) % 5)).unwrap();
                // Only a time-out may keep it from the lock.
                match lock.acquire_within(Duration::from_secs(20)).await.unwrap() {
                    Attempt::Acquired(guard) => assert_eq!(guard.release().await.unwrap(), Outcome::Released),
                    Attempt::Busy(_) => busy += 1,
                }
            }
            busy
        });
    }
    let busy: usize = tasks.join_all().await.into_iter().sum();
    assert!(busy < 32, "{busy} of 5,000 timed out behind locks that are held for no time");
    let channels = admin.call(&["PUBSUB", "CHANNELS"]).await.array().len();
    assert!(channels <= 2, "one for each client: {channels}");
    client.close_within(SOON).await;
    other.close_within(SOON).await;
    eventually("no channel is left", SOON, async || {
        admin.call(&["PUBSUB", "CHANNELS"]).await.array().is_empty()
    })
    .await;
}

#[tokio::test]
async fn conf_1_an_aborted_waiter_does_not_disturb_those_behind_it() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap()).await;
    let lock = two.lock("a").unwrap();
    let mut waiters = Vec::new();
    for n in 0..6_u64 {
        let waiting = lock.clone();
        waiters.push(tokio::spawn(async move {
            let guard = waiting.acquire().await.unwrap();
            let token = guard.token().sequence();
            assert_eq!(guard.release().await.unwrap(), Outcome::Released);
            token
        }));
        until_waiting(&lock, n + 1).await;
    }
    for n in [0, 2, 5] {
        waiters[n].abort();
    }
    until_waiting(&lock, 3).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    let mut last = 0;
    for n in [1, 3, 4] {
        let token = tokio::time::timeout(SOON, &mut waiters[n]).await.expect("served").unwrap();
        assert!(token > last, "in their order");
        last = token;
    }
}
