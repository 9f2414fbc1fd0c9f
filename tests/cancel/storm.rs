//! Everything at once: waits that are cancelled at random moments, while pushes are killed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::{Client, Error, ErrorKind, Outcome};
use leasehold_testkit::{Server, eventually};
use leasehold_tests::eye::Eye;
use leasehold_tests::{client, take};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::{SOON, tasks_are};

/// A sequence that is the same each time (an LCG); the interleaving is not.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What is killed meanwhile, and which losses that may cause.
#[derive(Clone, Copy, PartialEq)]
enum Killed {
    Pushes,
    Everything,
}

/// How many are inside, for each lock: one at most.
static INSIDE: [[AtomicUsize; 2]; 2] = [const { [const { AtomicUsize::new(0) }; 2] }; 2];

/// One acquisition with little patience, and a release in one of three ways. Whether it was served.
async fn once(client: &Client, dice: &mut Dice, which: usize, killed: Killed) -> bool {
    let lock = client.lock(["a", "b"][which]).unwrap();
    let patience = Duration::from_micros(dice.below(120_000));
    let way = dice.below(4);
    let waits = async {
        let may_fail = |error: Error| {
            assert!(killed == Killed::Everything && error.kind() == ErrorKind::Unavailable, "{error}");
        };
        match way {
            0 => lock.try_acquire().await.map_err(may_fail).ok()?.acquired(),
            1 => lock.acquire_within(SOON).await.map_err(may_fail).ok()?.acquired(),
            2 => lock.wait_until_free().await.map(|()| None).unwrap(),
            _ => Some(lock.acquire().await.unwrap()),
        }
    };
    let Ok(Some(guard)) = tokio::time::timeout(patience, waits).await else { return false };
    let inside = &INSIDE[usize::from(killed == Killed::Everything)][which];
    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
    assert!(guard.is_held());
    tokio::task::yield_now().await;
    inside.fetch_sub(1, Ordering::SeqCst);
    match dice.below(3) {
        0 => drop(guard),
        1 => drop(tokio::time::timeout(Duration::from_micros(300), guard.release()).await),
        _ => match (guard.release().await.unwrap(), killed) {
            (Outcome::Released, _) | (Outcome::Unknown, Killed::Everything) => {}
            (outcome, _) => panic!("{outcome:?}"),
        },
    }
    true
}

async fn storm(killed: Killed) {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..3 {
        clients.push(client(&server).await);
    }
    let tasks = Handle::current().metrics().num_alive_tasks();
    let mut users = JoinSet::new();
    for user in 0..24_usize {
        let client = clients[user % 3].clone();
        users.spawn(async move {
            let mut dice = Dice(user as u64);
            let mut served = 0;
            for _ in 0..50 {
                served += usize::from(once(&client, &mut dice, user % 2, killed).await);
            }
            served
        });
    }
    let killer = async {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let whom = if killed == Killed::Pushes { ["TYPE", "pubsub"] } else { ["USER", "lease"] };
            let count = eye.admin.call(&["CLIENT", "KILL", whom[0], whom[1]]).await;
            assert_eq!(count.error(), None);
        }
    };
    let (served, ()) = tokio::join!(users.join_all(), killer);
    let served = served.iter().sum::<usize>();
    println!("served: {served} of 1,200");
    assert!(served > 50, "{served}");
    eye.nothing_left(SOON).await;
    // The push connections' own.
    tasks_are(tasks + 3 * 8).await;
    for client in clients {
        client.close_within(SOON).await;
    }
    tasks_are(0).await;
    eventually("their channels are gone", SOON, async || eye.channels().await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn must_3_a_storm_of_cancelled_waits_leaves_nothing() {
    storm(Killed::Pushes).await;
}

/// Command connections too: outcomes may be unknown, and still nothing is left, and nobody overlaps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn must_3_a_storm_of_broken_connections_leaves_nothing() {
    storm(Killed::Everything).await;
}

/// A thousand waiters leave at once, from the middle of the queue: those in front and behind are
/// served in their order, and the queue is empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn must_3_a_thousand_waiters_leave_at_once() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = one.lock("a").unwrap();
    let guard = take(&lock).await;
    let mut first = tokio::spawn(async move { lock.acquire().await.unwrap() });
    eye.queue_is("a", 1).await;
    let mut leaving = JoinSet::new();
    for _ in 0..1_000 {
        let lock = two.lock("a").unwrap();
        leaving.spawn(async move { lock.acquire().await.map(drop) });
    }
    eye.queue_is("a", 1_001).await;
    let lock = one.lock("a").unwrap();
    let mut last = tokio::spawn(async move { lock.acquire().await.unwrap() });
    eye.queue_is("a", 1_002).await;
    leaving.abort_all();
    // In the middle of their leaving.
    let _ = guard.release().await.unwrap();
    let guard = tokio::time::timeout(SOON, &mut first).await.expect("the first is served").unwrap();
    assert!(!last.is_finished());
    let _ = guard.release().await.unwrap();
    let guard = tokio::time::timeout(SOON, &mut last).await.expect("the last is served").unwrap();
    let _ = guard.release().await.unwrap();
    eye.nothing_left(SOON).await;
    while let Some(left) = leaving.join_next().await {
        assert!(left.is_err_and(|error| error.is_cancelled()), "aborted");
    }
}
