//! What Redisson's own tests check of a lock, in this library's words: an owner where Redisson says
//! thread, an outcome where it throws, a lease of 1 s for its watchdog of 30 s.

use std::time::{Duration, Instant};

use leasehold::{Attempt, ErrorKind, Evicted, Outcome};
use leasehold_testkit::{Relay, Server, eventually};
use leasehold_tests::{client, options, take};

use crate::support::{SOON, busy, exists, key, ms, pttl, seen, until_waiting};

#[tokio::test]
async fn conf_1_lock_is_not_renewed_after_interrupted_try_lock() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    let lock = client.lock("a").unwrap().renewed(ms(1_000)).unwrap();
    for polls in 0..20 {
        let trying = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire_within(SOON).await.map(Attempt::acquired) }
        });
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        trying.abort();
        drop(trying.await);
    }
    eventually("free", SOON, async || !exists(&mut admin, &key).await).await;
    tokio::time::sleep(ms(1_500)).await; // 45 s there: one and a half times the watchdog's
    assert_eq!(pttl(&mut admin, &key).await, -2, "and nobody brings it back");
}

#[tokio::test]
async fn conf_1_redis_failed() {
    let server = Server::own().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    server.kill().await;
    let error = lock.acquire_within(ms(600)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut), "{error}");
    let error = lock.try_acquire().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut), "{error}");
}

#[tokio::test]
async fn conf_1_remain_time_to_live() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    let lock = client.lock("a").unwrap().renewed(ms(1_000)).unwrap();
    let hour = take(&lock.clone().fixed(Duration::from_secs(3_600)).unwrap()).await;
    assert!((3_590_000..=3_600_000).contains(&pttl(&mut admin, &key).await));
    assert_eq!(hour.release().await.unwrap(), Outcome::Released);
    assert_eq!(pttl(&mut admin, &key).await, -2);
    let guard = lock.acquire().await.unwrap();
    assert!((1..=1_000).contains(&pttl(&mut admin, &key).await), "the watchdog's");
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn conf_1_remain_time_to_live_2() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    let guard = take(&client.lock("a").unwrap().fixed(Duration::from_secs(10)).unwrap()).await;
    let (second, third) = (guard.reenter(), guard.reenter());
    assert_eq!(third.release().await.unwrap(), Outcome::StillHeld);
    assert_eq!(second.release().await.unwrap(), Outcome::StillHeld);
    assert!((5_000..=10_000).contains(&pttl(&mut admin, &key).await), "no release cut it");
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn conf_1_try_lock_wait() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap()).await;
    let began = Instant::now();
    let Attempt::Busy(_) = two.lock("a").unwrap().acquire_within(ms(900)).await.unwrap() else {
        panic!("two holders")
    };
    let waited = began.elapsed();
    assert!(waited >= ms(900) && waited < SOON, "{waited:?}");
    assert!(guard.confirm().await.is_ok());
    until_waiting(&one.lock("a").unwrap(), 0).await;
}

#[tokio::test]
async fn conf_1_force_unlock() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let held = take(&one.lock("a").unwrap()).await;
    let lock = two.lock("a").unwrap();
    assert_eq!(lock.force_release(&lock.inspect().await.unwrap()).await.unwrap(), Evicted::Freed);
    let next = take(&lock).await;
    assert!(matches!(held.release().await.unwrap(), Outcome::Lost(_)));
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
    assert!(!one.lock("a").unwrap().try_acquire().await.unwrap().is_busy());
}

#[tokio::test]
async fn conf_1_expire() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let began = Instant::now();
    let late = take(&one.lock("a").unwrap().fixed(ms(2_000)).unwrap()).await;
    let next = two.lock("a").unwrap().acquire().await.unwrap();
    // Served when the 2 s are over (for its holder, margins before that), not by a check that comes
    // with a lease of 30 s.
    let waited = began.elapsed();
    assert!(waited > ms(1_000) && waited < SOON + ms(2_000), "{waited:?}");
    assert!(!late.is_held());
    assert!(matches!(late.release().await.unwrap(), Outcome::Lost(_)), "late, and told so");
    assert!(next.confirm().await.is_ok());
}

#[tokio::test]
async fn conf_1_auto_expire() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    // Cut off for good, as the client of a killed process; its own tasks live on and cannot help it.
    let relay = Relay::to(&server);
    let dead = leasehold::Client::builder(&relay.url()).prefix(server.prefix()).lease(ms(1_000));
    let dead = dead.connect().await.unwrap();
    let guard = take(&dead.lock("a").unwrap()).await;
    let other = client(&server).await.lock("a").unwrap();
    eventually("it is renewed while its client lives", SOON, async || {
        let hold = seen(&other).await;
        hold.holder().held_for().unwrap() > ms(1_500) && guard.is_held()
    })
    .await;
    relay.refuse();
    relay.cut();
    let key = key(&server, "a");
    eventually("free within the watchdog's time", SOON, async || !exists(&mut admin, &key).await).await;
    assert!(!guard.is_held(), "its holder knew first");
    assert!(!other.try_acquire().await.unwrap().is_busy());
}

#[tokio::test]
async fn conf_1_get_hold_count() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    assert!(lock.inspect().await.unwrap().is_free(), "0");
    let one = take(&lock).await;
    let two = one.reenter();
    assert_eq!(two.release().await.unwrap(), Outcome::StillHeld, "2, so one is left");
    let two = one.reenter();
    assert_eq!(one.release().await.unwrap(), Outcome::StillHeld, "2 again, in whatever order");
    assert_eq!(two.release().await.unwrap(), Outcome::Released, "1, so none is left");
    assert!(lock.inspect().await.unwrap().is_free(), "and back");
}

#[tokio::test]
async fn conf_1_is_held_by_current_thread_and_by_another() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap()).await;
    assert!(guard.is_held());
    let view = guard.held();
    assert!(tokio::spawn(async move { view.is_held() }).await.unwrap(), "whichever task asks");
    let lock = two.lock("a").unwrap();
    let theirs = take(&two.lock("b").unwrap()).await;
    assert_ne!(seen(&lock).await.holder().owner(), theirs.owner_id());
    let view = guard.held();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    assert!(!view.is_held());
}

#[tokio::test]
async fn conf_1_is_locked_and_is_locked_by_another() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let locks = [one.lock("a").unwrap(), two.lock("a").unwrap()];
    for lock in &locks {
        assert!(lock.inspect().await.unwrap().is_free());
    }
    let guard = take(&locks[0]).await;
    for lock in &locks {
        assert!(!lock.inspect().await.unwrap().is_free());
    }
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    for lock in &locks {
        assert!(lock.inspect().await.unwrap().is_free());
    }
}

#[tokio::test]
async fn conf_1_unlock_fail() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let not_mine = take(&one.lock("a").unwrap()).await;
    admin.call(&["DEL", &key(&server, "a")]).await;
    let guard = take(&two.lock("a").unwrap()).await;
    assert!(matches!(not_mine.release().await.unwrap(), Outcome::Lost(_)), "told, not ignored");
    assert!(guard.confirm().await.is_ok(), "the lock stays");
}

#[tokio::test]
async fn conf_1_lock_unlock() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    for _ in 0..2 {
        assert_eq!(lock.acquire().await.unwrap().release().await.unwrap(), Outcome::Released);
        assert_eq!(take(&lock).await.release().await.unwrap(), Outcome::Released);
    }
}

#[tokio::test]
async fn conf_1_reentrancy() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap()).await;
    let again = one.lock("a").unwrap().acquire_as(&guard.owner()).unwrap();
    assert_eq!(guard.release().await.unwrap(), Outcome::StillHeld);
    busy(&two.lock("a").unwrap()).await;
    assert_eq!(again.release().await.unwrap(), Outcome::Released);
    drop(take(&two.lock("a").unwrap()).await);
}

#[tokio::test]
async fn conf_1_single_pub_sub() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, options(&server).connect().await.unwrap());
    let held = [take(&one.lock("a").unwrap()).await, take(&one.lock("b").unwrap()).await];
    let waiters = ["a", "b"].map(|name| {
        let lock = two.lock(name).unwrap();
        tokio::spawn(async move { lock.acquire_within(SOON).await.unwrap() })
    });
    for name in ["a", "b"] {
        until_waiting(&one.lock(name).unwrap(), 1).await;
    }
    assert_eq!(admin.call(&["PUBSUB", "CHANNELS"]).await.array().len(), 1, "one channel for both names");
    for guard in held {
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
    for waiter in waiters {
        assert!(!waiter.await.unwrap().is_busy());
    }
}
