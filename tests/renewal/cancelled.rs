//! Acquisitions that are dropped half-way, and guards that are dropped by the thousand.

use std::time::Duration;

use leasehold::{Client, Guard, Outcome};
use leasehold_testkit::{Direction, Relay, Server, eventually, keys, stats};
use leasehold_tests::{client, take};
use tokio::task::JoinSet;

use crate::support::{Dice, LEASE, SOON, exists, options_through, pttl, quiet, tasks, throughout, turns};

#[tokio::test]
async fn case_r1_ten_thousand_cancelled_acquisitions_leave_nothing_that_renews() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap().renewed(LEASE).unwrap();
    let first = take(&lock).await;
    assert!(lock.acquire_within(LEASE / 10).await.unwrap().is_busy(), "the push connection is open");
    assert_eq!(first.release().await.unwrap(), Outcome::Released);
    let before = tasks();
    let mut dice = Dice::new(7);
    let mut held = 0;
    for _ in 0..10_000 {
        let guard = match dice.below(3) {
            0 => turns(dice.below(40), lock.acquire()).await.map(Result::unwrap),
            1 => turns(dice.below(40), lock.try_acquire())
                .await
                .and_then(|attempt| attempt.unwrap().acquired()),
            _ => Some(lock.acquire().await.unwrap()),
        };
        let Some(guard) = guard else { continue };
        held += 1;
        match dice.below(3) {
            0 => drop(guard),
            1 => drop(turns(dice.below(20), guard.release()).await),
            _ => drop(guard.release().await.unwrap()),
        }
    }
    assert!((3_333..9_000).contains(&held), "cancelled too few or too many: {held} of 10,000 were held");

    let mut least = Duration::MAX;
    eventually("the key is gone", SOON, async || {
        let left = pttl(&mut admin, "t:a").await;
        assert!(left <= least, "renewed after the last one was over: {left:?} behind {least:?}");
        least = left.max(Duration::from_millis(1));
        !exists(&mut admin, "t:a").await
    })
    .await;
    quiet(&mut admin, LEASE * 2).await;
    assert_eq!(keys(&mut admin).await, ["{t:a}:fence", "{t:a}:waiters"], "no holder, no queue");
    assert_eq!(tasks(), before, "no task is left");
}

/// The server knows the scripts: what is sent runs, whether or not a reply comes back.
async fn warm(client: &Client) {
    let guard = take(&client.lock("warm").unwrap()).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

/// The reply is on its way when the future is dropped: what it says is ours is given back at once.
#[tokio::test]
async fn case_r3_dropped_between_send_and_reply_it_is_given_back_at_once() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let relay = Relay::to(&server);
    let client = options_through(&server, &relay).connect().await.unwrap();
    let lock = client.lock("a").unwrap();
    warm(&client).await;
    for direction in [Direction::ToClient, Direction::ToServer] {
        relay.hold(direction);
        let before = stats(&mut admin).await;
        tokio::select! {
            biased;
            _ = lock.acquire() => panic!("an answer came through"),
            () = async {
                if direction == Direction::ToClient {
                    eventually("the key is there", SOON, async || exists(&mut admin, "t:a").await).await;
                } else {
                    throughout(Duration::from_millis(50), async || ()).await;
                }
            } => {}
        }
        if direction == Direction::ToServer {
            relay.let_go();
            eventually("the request arrives", SOON, async || {
                (stats(&mut admin).await - before.clone()).scripts() >= 2
            })
            .await;
        }
        // Its lease is 30 s: what is gone now was given back.
        eventually("the key is gone", SOON, async || !exists(&mut admin, "t:a").await).await;
        relay.let_go();
        eventually("a later one wins", SOON, async || lock.try_acquire().await.is_ok_and(|a| !a.is_busy()))
            .await;
        eventually("and is released", SOON, async || !exists(&mut admin, "t:a").await).await;
    }
}

/// Nothing can be given back, since the server cannot be reached any more: one lease ends it.
#[tokio::test]
async fn case_r3_dropped_and_cut_off_it_is_never_renewed() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let relay = Relay::to(&server);
    let client = options_through(&server, &relay).connect().await.unwrap();
    let lock = client.lock("a").unwrap().renewed(LEASE).unwrap();
    warm(&client).await;
    relay.hold(Direction::ToClient);
    tokio::select! {
        biased;
        _ = lock.try_acquire() => panic!("an answer came through"),
        () = async {
            eventually("the key is there", SOON, async || exists(&mut admin, "t:a").await).await;
            relay.refuse();
            relay.cut();
        } => {}
    }
    let mut least = LEASE;
    eventually("the key expires", SOON, async || {
        let left = pttl(&mut admin, "t:a").await;
        assert!(left <= least, "it was renewed: {left:?} behind {least:?}");
        least = left;
        !exists(&mut admin, "t:a").await
    })
    .await;
    relay.accept();
    relay.let_go();
    eventually("a later one wins", SOON, async || lock.try_acquire().await.is_ok_and(|a| !a.is_busy())).await;
}

#[tokio::test]
async fn case_x53_ten_thousand_dropped_guards_make_no_task_each() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    warm(&client).await;
    let before = tasks();
    let mut guards: Vec<Guard> = Vec::new();
    for hundred in 0..100 {
        let mut some = JoinSet::new();
        for one in 0..100 {
            let lock = client.lock(&format!("g{hundred}:{one}")).unwrap();
            some.spawn(async move { take(&lock).await });
        }
        guards.extend(some.join_all().await);
    }
    assert_eq!(guards.len(), 10_000);
    assert_eq!(tasks(), before);
    drop(guards);
    let mut most = tasks();
    eventually("all are released", SOON * 2, async || {
        most = most.max(tasks());
        !keys(&mut admin).await.iter().any(|key| key.starts_with("t:g"))
    })
    .await;
    assert_eq!(most, before, "tasks for drops");
}
