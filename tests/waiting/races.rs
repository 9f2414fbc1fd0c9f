//! Must hold 5: two commands that race on the server, ten thousand times.

use std::time::{Duration, Instant};

use leasehold::{Client, ErrorKind, Outcome};
use leasehold_testkit::Server;
use leasehold_tests::eye::Eye;
use leasehold_tests::options;
use tokio::task::JoinSet;

use crate::{LONG, within};

/// A wake-up that is missed costs the claim time of a lease of 30 s, or a check's 30 s.
const MISSED: Duration = Duration::from_secs(4);

/// Lanes that race beside each other, each on a lock of its own.
const LANES: usize = 8;

/// A busy machine is no reason for a time-out here.
async fn patient(server: &Server) -> Client {
    options(server).command_timeout(LONG).connect().await.unwrap()
}

/// Where in the other's round trip a side begins: some turns of the scheduler later.
async fn stagger(turns: usize) {
    for _ in 0..turns % 7 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn must_5_ten_thousand_releases_race_with_enqueues() {
    const ROUNDS: usize = 10_000 / LANES;
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (one, two) = (patient(&server).await, patient(&server).await);
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let name = format!("a{lane}");
        let (one, two) = (one.lock(&name).unwrap(), two.lock(&name).unwrap());
        lanes.spawn(async move {
            let mut slowest = Duration::ZERO;
            for round in 0..ROUNDS {
                let guard = one.try_acquire().await.unwrap().acquired().expect("nobody else is left");
                let begun = Instant::now();
                let releases = async {
                    stagger(round).await;
                    guard.release().await.unwrap()
                };
                let enqueues = async {
                    stagger(round / 7).await;
                    two.acquire().await.unwrap()
                };
                let (released, next) = tokio::join!(releases, enqueues);
                slowest = slowest.max(begun.elapsed());
                assert!(slowest < MISSED, "{round}: a wake-up was missed: {slowest:?}");
                assert_eq!(released, Outcome::Released, "{round}");
                assert!(next.is_held(), "{round}");
                assert_eq!(next.release().await.unwrap(), Outcome::Released, "{round}");
            }
            slowest
        });
    }
    let slowest = within("every lane ends", LONG * 4, lanes.join_all()).await.into_iter().max().unwrap();
    let ran = eye.stats().await;
    println!("slowest of 10,000: {slowest:?}; enqueued before the release: {}", ran.of("publish"));
    assert!((1..10_000).contains(&ran.of("publish")), "one side always won: {}", ran.of("publish"));
    eye.nothing_left(LONG).await;
}

/// Each hold is released about when its first renewal is due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn must_5_ten_thousand_releases_race_with_renewals() {
    const LOCKS: usize = 500;
    const ROUNDS: usize = 20;
    let lease = Duration::from_secs(3);
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let client = patient(&server).await;
    let mut holds = JoinSet::new();
    for n in 0..LOCKS {
        let lock = client.lock(&format!("a{n}")).unwrap().renewed(lease).unwrap();
        holds.spawn(async move {
            // Spread, so that it is a race of two and not a crowd.
            tokio::time::sleep(lease / 3 * u32::try_from(n).unwrap() / 500).await;
            let mut unknown = 0;
            for round in 0..ROUNDS {
                let asked = Instant::now();
                let guard = lock.acquire().await.unwrap();
                let lost = guard.held();
                let offset = Duration::from_micros(((n * 7 + round * 131) % 1_000) as u64 * 16);
                let due = asked + (lease / 3).saturating_sub(Duration::from_millis(8)) + offset;
                tokio::time::sleep_until(due.into()).await;
                match guard.release().await.unwrap() {
                    Outcome::Released => {}
                    // A machine so busy that the connection was taken for dead, and made anew.
                    Outcome::Unknown => unknown += 1,
                    outcome => panic!("{n} {round}: a false loss: {outcome:?}"),
                }
                assert!(!lost.state().is_lost(), "{n} {round}: a false loss");
            }
            unknown
        });
    }
    let unknown: usize = within("all are released", LONG * 4, holds.join_all()).await.into_iter().sum();
    let ran = eye.stats().await;
    let plain = u64::try_from(2 * LOCKS * ROUNDS).unwrap();
    println!("{} batches of renewals beside 10,000 holds, {unknown} unknown", ran.scripts() - plain);
    assert!(unknown < LOCKS, "{unknown} outcomes are unknown");
    assert!(ran.scripts() > plain + 100, "renewals were never due");
    eye.nothing_left(LONG).await;
}

/// The holder's own question, which renews, and its release, in one moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn must_5_releases_race_with_confirms() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let client = patient(&server).await;
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let lock = client.lock(&format!("a{lane}")).unwrap();
        lanes.spawn(async move {
            for round in 0..250 {
                let guard = lock.try_acquire().await.unwrap().acquired().expect("nobody else is here");
                let held = guard.held();
                let asks = async {
                    stagger(round / 7).await;
                    held.confirm().await
                };
                let releases = async {
                    stagger(round).await;
                    guard.release().await.unwrap()
                };
                let (asked, released) = tokio::join!(asks, releases);
                assert_eq!(released, Outcome::Released, "{round}");
                if let Err(error) = asked {
                    assert_eq!(error.kind(), ErrorKind::Invalid, "{round}: a false loss: {error}");
                }
                assert!(!held.state().is_lost(), "{round}");
            }
        });
    }
    within("every lane ends", LONG * 2, lanes.join_all()).await;
    eye.nothing_left(LONG).await;
}
