//! One holder at a time, and nobody ends a hold that is not theirs.

use std::time::Duration;

use leasehold::{Attempt, ErrorKind, LostReason, Outcome, Seen};
use leasehold_testkit::{Server, eventually, stats};
use leasehold_tests::{client, take};
use tokio::task::JoinSet;

use crate::support::{SOON, busy, exists, key, loss_of, ms, pttl, record, until_free};

#[tokio::test]
async fn must_1_twenty_concurrent_tries_and_exactly_one_wins() {
    let server = Server::start().await;
    let clients =
        [client(&server).await, client(&server).await, client(&server).await, client(&server).await];
    for round in 0..10 {
        let mut tries = JoinSet::new();
        for n in 0..20 {
            let lock = clients[n % clients.len()].lock("a").unwrap();
            tries.spawn(async move { lock.try_acquire().await.unwrap() });
        }
        let (mut won, mut lost) = (Vec::new(), Vec::new());
        for attempt in tries.join_all().await {
            match attempt {
                Attempt::Acquired(guard) => won.push(guard),
                Attempt::Busy(busy) => lost.push(busy),
            }
        }
        assert_eq!((won.len(), lost.len()), (1, 19), "round {round}");
        let winner = won.pop().unwrap();
        for busy in lost {
            let holder = busy.holder().and_then(|holder| holder.client()).expect("somebody has it");
            assert_eq!(holder.owner(), winner.owner_id(), "everyone is told who won");
        }
        assert_eq!(winner.release().await.unwrap(), Outcome::Released);
    }
}

#[tokio::test]
async fn must_1_a_wrong_owners_release_leaves_the_lock_and_the_right_ones_frees_it() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let key = key(&server, "a");
    // The first hold loses its record behind its back, and still believes in it.
    let wrong = take(&one.lock("a").unwrap()).await;
    admin.call(&["DEL", &key]).await;
    let right = take(&two.lock("a").unwrap()).await;
    let before = record(&mut admin, &key).await;
    assert!(wrong.is_held(), "nobody has told it yet");
    assert_eq!(wrong.release().await.unwrap(), Outcome::Lost(LostReason::Taken));
    assert_eq!(record(&mut admin, &key).await, before, "not a field of the right one's hold moved");
    assert!(pttl(&mut admin, &key).await > 20_000, "nor its lease");
    assert_eq!(right.release().await.unwrap(), Outcome::Released);
    assert!(!exists(&mut admin, &key).await);
}

#[tokio::test]
async fn must_1_a_wrong_owners_drop_leaves_the_lock() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let key = key(&server, "a");
    let wrong = take(&one.lock("a").unwrap()).await;
    admin.call(&["DEL", &key]).await;
    let right = take(&two.lock("a").unwrap()).await;
    drop(wrong);
    one.close_within(SOON).await; // whatever the drop did is done
    assert!(right.confirm().await.unwrap() > ms(20_000));
    assert_eq!(right.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn case_x24_a_release_after_the_lease_leaves_the_next_owners_lock() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let late = take(&one.lock("a").unwrap().fixed(ms(300)).unwrap()).await;
    let next = two.lock("a").unwrap().acquire().await.unwrap();
    assert!(!late.is_held(), "told before anybody else could have it");
    let before = record(&mut admin, &key(&server, "a")).await;
    assert_eq!(late.release().await.unwrap(), Outcome::Lost(LostReason::Expired));
    one.close_within(SOON).await;
    assert_eq!(record(&mut admin, &key(&server, "a")).await, before);
    assert!(next.confirm().await.is_ok());
}

#[tokio::test]
async fn case_x49_two_guards_of_one_lock_object_are_two_owners() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    let first = take(&lock.clone().fixed(ms(300)).unwrap()).await;
    assert_eq!(loss_of(&first).await, LostReason::Expired);
    let second = lock.acquire().await.unwrap();
    assert_ne!(first.owner_id(), second.owner_id());
    assert_eq!(first.release().await.unwrap(), Outcome::Lost(LostReason::Expired));
    assert!(second.confirm().await.unwrap() > ms(20_000), "the second guard's hold is whole");
    busy(&lock).await;
    // The other way to end a guard that is over.
    let third = lock.clone().fixed(ms(300)).unwrap();
    assert_eq!(second.release().await.unwrap(), Outcome::Released);
    let third = take(&third).await;
    assert_eq!(loss_of(&third).await, LostReason::Expired);
    let fourth = lock.acquire().await.unwrap();
    drop(third);
    client.lock("b").unwrap().inspect().await.unwrap();
    assert!(fourth.confirm().await.is_ok());
}

#[tokio::test]
async fn case_x56_no_success_is_told_about_a_key_that_is_gone() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    let lock = client.lock("a").unwrap();

    let guard = take(&lock).await;
    admin.call(&["DEL", &key]).await;
    let error = guard.confirm().await.unwrap_err();
    assert_eq!((error.kind(), error.lost_reason()), (ErrorKind::Lost, Some(LostReason::Gone)));
    assert!(!guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Outcome::Lost(LostReason::Gone));

    let guard = take(&lock.clone().fixed(Duration::from_secs(20)).unwrap()).await;
    admin.call(&["DEL", &key]).await;
    let error = guard.extend_to(Duration::from_secs(40)).await.unwrap_err();
    assert_eq!((error.kind(), error.lost_reason()), (ErrorKind::Lost, Some(LostReason::Gone)));
    assert!(!exists(&mut admin, &key).await, "an extension revives nothing");

    let guard = take(&lock).await;
    admin.call(&["DEL", &key]).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Lost(LostReason::Gone));
    assert!(!exists(&mut admin, &key).await);
}

#[tokio::test]
async fn case_x56_a_renewal_of_a_deleted_key_ends_the_hold_and_revives_nothing() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    let guard = take(&client.lock("a").unwrap().renewed(ms(900)).unwrap()).await;
    admin.call(&["DEL", &key]).await;
    assert_eq!(loss_of(&guard).await, LostReason::Gone);
    assert!(!exists(&mut admin, &key).await);
}

#[tokio::test]
async fn case_x57_free_mine_others_and_unreachable_are_four_answers() {
    let server = Server::own().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (mine, theirs) = (one.lock("a").unwrap(), two.lock("a").unwrap());
    assert!(matches!(mine.inspect().await.unwrap(), Seen::Free { waiters: 0 }));
    let guard = take(&mine).await;
    for lock in [&mine, &theirs] {
        let seen = lock.inspect().await.unwrap();
        assert_eq!(seen.held().unwrap().holder().owner(), guard.owner_id());
    }
    assert!(!seen_is(&theirs, &take(&two.lock("b").unwrap()).await.owner_id()).await);
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    assert!(theirs.inspect().await.unwrap().is_free());
    server.kill().await;
    let error = mine.inspect().await.expect_err("no server is no free lock");
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut), "{error}");
}

async fn seen_is(lock: &leasehold::Lock, owner: &str) -> bool {
    lock.inspect().await.unwrap().held().is_some_and(|hold| hold.holder().owner() == owner)
}

#[tokio::test]
async fn a_try_costs_one_command_whether_it_wins_or_not() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, client(&server).await);
    // The server learns each script once, which costs a call.
    assert_eq!(take(&one.lock("a").unwrap()).await.release().await.unwrap(), Outcome::Released);
    let guard = take(&one.lock("a").unwrap()).await;
    let before = stats(&mut admin).await;
    for _ in 0..50 {
        drop(busy(&two.lock("a").unwrap()).await);
    }
    two.close_within(SOON).await; // whatever was left to do in the background is done
    let sent = stats(&mut admin).await - before;
    assert_eq!(sent.scripts(), 50, "one for each busy try: {sent:?}");
    let before = stats(&mut admin).await;
    for n in 0..50 {
        drop(take(&one.lock(&format!("b{n}")).unwrap()).await);
    }
    drop(guard);
    one.close_within(SOON).await;
    let sent = stats(&mut admin).await - before;
    assert_eq!(sent.scripts(), 101, "two for each hold, one for the release of the first: {sent:?}");
}

#[tokio::test]
async fn the_drop_of_an_attempt_nobody_looks_at_frees_the_lock() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    drop(lock.try_acquire().await.unwrap());
    until_free(&lock).await;
    eventually("it can be had again", SOON, async || !lock.try_acquire().await.unwrap().is_busy()).await;
}
