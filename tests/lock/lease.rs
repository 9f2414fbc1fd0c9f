//! How long a hold lasts: renewed, fixed, moved, bounded.

use std::time::{Duration, Instant};

use leasehold::{ErrorKind, HoldState, LostReason, Outcome};
use leasehold_testkit::{Server, eventually};
use leasehold_tests::{client, take};

use crate::support::{SOON, busy, exists, key, loss_of, ms, pttl};

#[tokio::test]
async fn case_e1_a_lease_of_an_earlier_hold_does_not_stick_to_the_lock() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    let lock = client.lock("a").unwrap().renewed(ms(1_500)).unwrap();
    let short = take(&lock.clone().fixed(ms(300)).unwrap()).await;
    assert!(pttl(&mut admin, &key).await <= 300);
    assert_eq!(loss_of(&short).await, LostReason::Expired);
    let guard = lock.acquire().await.unwrap();
    assert!(pttl(&mut admin, &key).await > 300, "the handle's own lease");
    outlive(&guard, ms(4_500)).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    // And the other way round.
    let fixed = take(&lock.fixed(ms(400)).unwrap()).await;
    assert_eq!(loss_of(&fixed).await, LostReason::Expired, "not renewed because an earlier one was");
}

#[tokio::test]
async fn case_e6_a_lease_that_is_asked_for_with_the_token_is_kept() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    let guard = take(&client.lock("a").unwrap().fixed(ms(1_000)).unwrap()).await;
    assert!(guard.token().sequence() > 0);
    assert!((1..=1_000).contains(&pttl(&mut admin, &key).await));
    eventually("the key ends with its lease", SOON, async || !exists(&mut admin, &key).await).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Lost(LostReason::Expired));
}

#[tokio::test]
async fn a_fixed_hold_is_never_renewed() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    // By the watchdog alone; and by its holder's questions, which put off the watchdog's.
    for asks in [false, true] {
        let guard = take(&client.lock("a").unwrap().fixed(ms(1_500)).unwrap()).await;
        let mut last = i64::MAX;
        while guard.is_held() {
            let now = pttl(&mut admin, &key).await;
            assert!(now <= last, "it rose from {last} to {now}");
            last = now;
            if asks {
                let _ = guard.confirm().await;
            }
            tokio::time::sleep(ms(20)).await;
        }
        assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
        eventually("it is free", SOON, async || !exists(&mut admin, &key).await).await;
    }
}

#[tokio::test]
async fn a_renewed_hold_outlives_many_leases_and_its_key_always_ends() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    let guard = take(&client.lock("a").unwrap().renewed(ms(1_000)).unwrap()).await;
    let (mut rises, mut last) = (0, i64::MAX);
    eventually("five renewals", SOON, async || {
        let now = pttl(&mut admin, &key).await;
        assert!((1..=1_000).contains(&now), "case_x23: never without an end, never longer: {now}");
        rises += u32::from(now > last);
        last = now;
        rises >= 5
    })
    .await;
    assert!(guard.is_held() && guard.remaining() > Duration::ZERO);
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    assert_eq!(pttl(&mut admin, &key).await, -2);
}

#[tokio::test]
async fn case_x25_extending_a_hundred_times_never_adds_up() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    for lock in [
        client.lock("a").unwrap().fixed(ms(2_000)).unwrap(),
        client.lock("a").unwrap().renewed(ms(2_000)).unwrap(),
    ] {
        let guard = take(&lock).await;
        for _ in 0..100 {
            let remaining = guard.extend_to(Duration::from_secs(10)).await.unwrap();
            assert!(remaining <= Duration::from_secs(10));
        }
        assert!((5_000..=10_000).contains(&pttl(&mut admin, &key).await));
        assert!(guard.remaining() > Duration::from_secs(4));
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

#[tokio::test]
async fn an_extension_never_shortens_and_counts_from_now() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    let guard = take(&client.lock("a").unwrap().fixed(Duration::from_secs(60)).unwrap()).await;
    let remaining = guard.extend_to(Duration::from_secs(5)).await.unwrap();
    assert!(remaining > Duration::from_secs(30), "it says what holds, not what was asked");
    assert!(pttl(&mut admin, &key).await > 40_000);
    guard.extend_to(Duration::from_secs(120)).await.unwrap();
    assert!((100_000..=120_000).contains(&pttl(&mut admin, &key).await));
    for bad in [Duration::ZERO, ms(199), Duration::from_secs(24 * 3_600 + 1), Duration::MAX] {
        assert_eq!(guard.extend_to(bad).await.unwrap_err().kind(), ErrorKind::Invalid, "{bad:?}");
    }
    assert!((100_000..=120_000).contains(&pttl(&mut admin, &key).await));
    assert!(guard.is_held());
}

#[tokio::test]
async fn an_extended_fixed_hold_ends_at_its_new_end_and_not_at_the_old() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap().fixed(ms(1_000)).unwrap();
    let began = Instant::now();
    let guard = take(&lock).await;
    guard.extend_to(ms(2_500)).await.unwrap();
    assert_eq!(loss_of(&guard).await, LostReason::Expired);
    assert!(began.elapsed() > ms(1_500), "well behind the old end");
    let error = guard.extend_to(ms(2_500)).await.unwrap_err();
    assert_eq!((error.kind(), error.lost_reason()), (ErrorKind::Lost, Some(LostReason::Expired)));
    drop(guard);
    drop(lock.acquire().await.unwrap());
}

#[tokio::test]
async fn an_extended_renewed_hold_goes_on_being_renewed() {
    let server = Server::start().await;
    let client = client(&server).await;
    let guard = take(&client.lock("a").unwrap().renewed(ms(1_500)).unwrap()).await;
    guard.extend_to(ms(3_000)).await.unwrap();
    outlive(&guard, ms(5_000)).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn max_hold_ends_work_that_hangs_and_lets_the_next_in() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = one.lock("a").unwrap().renewed(ms(1_000)).unwrap().max_hold(ms(2_200)).unwrap();
    let began = Instant::now();
    let hung = take(&lock).await;
    busy(&two.lock("a").unwrap()).await;
    let next = two.lock("a").unwrap().acquire().await.unwrap();
    assert!(began.elapsed() > ms(2_000), "renewed until then");
    assert_eq!(loss_of(&hung).await, LostReason::MaxHold);
    assert_eq!(hung.release().await.unwrap(), Outcome::Lost(LostReason::MaxHold));
    assert!(next.confirm().await.is_ok());
    drop(next);
    let key = key(&server, "a");
    eventually("nothing is left", SOON, async || !exists(&mut admin, &key).await).await;
}

#[tokio::test]
async fn max_hold_frees_at_once_and_not_when_the_lease_ends() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    // A lease of 30 s: only the release by the library can free it so soon.
    for lock in [client.lock("a").unwrap(), client.lock("a").unwrap().fixed(Duration::from_secs(30)).unwrap()]
    {
        let guard = take(&lock.max_hold(ms(400)).unwrap()).await;
        assert_eq!(loss_of(&guard).await, LostReason::MaxHold);
        eventually("it is released", SOON, async || !exists(&mut admin, &key).await).await;
    }
}

#[tokio::test]
async fn max_hold_is_not_moved_by_an_extension_nor_by_re_entry() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap().max_hold(ms(800)).unwrap();
    let guard = take(&lock).await;
    guard.extend_to(Duration::from_secs(60)).await.unwrap();
    let inner = guard.reenter();
    drop(guard);
    assert_eq!(tokio::time::timeout(SOON, inner.lost()).await.unwrap(), LostReason::MaxHold);
    assert_eq!(inner.remaining(), Duration::ZERO);
}

#[tokio::test]
async fn remaining_never_promises_more_than_the_server_keeps() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    let guard = take(&client.lock("a").unwrap().renewed(ms(2_000)).unwrap()).await;
    for _ in 0..400 {
        let asked = Instant::now();
        let mine = guard.remaining();
        let theirs = Duration::from_millis(pttl(&mut admin, &key).await.try_into().unwrap());
        assert!(mine <= theirs + asked.elapsed(), "{mine:?} of {theirs:?}");
        tokio::time::sleep(ms(5)).await;
    }
    assert!(guard.is_held());
}

/// Holds for so long, by renewals alone.
async fn outlive(guard: &leasehold::Guard, span: Duration) {
    tokio::select! {
        reason = guard.lost() => panic!("lost: {reason}"),
        () = tokio::time::sleep(span) => assert!(guard.is_held()),
    }
}
