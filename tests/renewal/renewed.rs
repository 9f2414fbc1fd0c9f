//! A hold lasts as long as its guard, whatever its neighbours do.

use std::time::Duration;

use leasehold::{Guard, LostReason, Outcome};
use leasehold_testkit::{Server, eventually};
use leasehold_tests::{client, take};
use tokio::task::JoinSet;

use crate::support::{LEASE, SOON, pttl, throughout};

/// Sees to it that the hold is kept, and renewed well before its end, for `leases` of them.
async fn is_kept(server: &Server, guard: &Guard, leases: u32) {
    let mut admin = server.admin().await;
    throughout(LEASE * leases, async || {
        assert!(guard.is_held(), "{guard:?}");
        let left = pttl(&mut admin, guard.lock()).await;
        assert!(left >= LEASE / 3, "renewed late: {left:?} were left");
    })
    .await;
}

#[tokio::test]
async fn case_r4_a_failed_hold_does_not_spoil_the_next_one_of_its_name() {
    let server = Server::own().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap().renewed(LEASE).unwrap();
    let guard = take(&lock).await;
    server.restart().await;
    eventually("the server answers", SOON, async || lock.inspect().await.is_ok()).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Lost(LostReason::Gone));
    let guard = take(&lock).await;
    is_kept(&server, &guard, 3).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn case_r7_leaving_one_hold_twice_does_not_stop_the_next_ones_renewal() {
    let server = Server::own().await;
    let (one, two) = (client(&server).await, client(&server).await);
    for (first, second) in [(&one, &two), (&one, &one)] {
        let lock = first.lock("a").unwrap().renewed(LEASE).unwrap();
        let outer = take(&lock).await;
        let inner = outer.reenter();
        assert_eq!(inner.token(), outer.token());
        let next = tokio::spawn({
            let lock = second.lock("a").unwrap().renewed(LEASE).unwrap();
            async move { lock.acquire().await.unwrap() }
        });
        eventually("the next one waits", SOON, async || {
            lock.inspect().await.unwrap().held().is_some_and(|hold| hold.waiters() == 1)
        })
        .await;
        assert_eq!(outer.release().await.unwrap(), Outcome::StillHeld);
        assert_eq!(inner.release().await.unwrap(), Outcome::Released);
        let guard = next.await.unwrap();
        is_kept(&server, &guard, 3).await;
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

#[tokio::test]
async fn case_r8_churn_beside_held_locks_loses_none_of_them() {
    // Long enough for a busy machine: the churn itself keeps it busy.
    let lease = LEASE * 2;
    let server = Server::own().await;
    let client = client(&server).await;
    let mut held = Vec::new();
    for n in 0..50 {
        held.push(take(&client.lock(&format!("held:{n}")).unwrap().renewed(lease).unwrap()).await);
    }
    let mut churn = JoinSet::new();
    for n in 0..50 {
        let lock = client.lock(&format!("churn:{}", n % 10)).unwrap().renewed(lease).unwrap();
        churn.spawn(async move {
            loop {
                let guard = lock.acquire().await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
                if n % 2 == 0 {
                    drop(guard);
                } else {
                    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
                }
            }
        });
    }
    throughout(lease * 5, async || {
        for guard in &held {
            assert!(guard.is_held(), "{guard:?}");
        }
        assert!(churn.try_join_next().is_none(), "the churn goes on");
    })
    .await;
    churn.shutdown().await;
    for guard in held {
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}
