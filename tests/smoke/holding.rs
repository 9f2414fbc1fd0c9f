//! While a lock is held.

use std::time::Duration;

use leasehold::{ErrorKind, HoldState, LostReason, Outcome};
use leasehold_testkit::{Server, eventually};
use leasehold_tests::{client, take};

const SOON: Duration = Duration::from_secs(8);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[tokio::test]
async fn a_renewed_hold_outlives_its_lease() {
    let server = Server::start().await;
    let client = client(&server).await;
    let guard = take(&client.lock("a").unwrap().renewed(ms(1_200)).unwrap()).await;
    tokio::select! {
        reason = guard.lost() => panic!("lost: {reason}"),
        () = tokio::time::sleep(ms(3_000)) => {}
    }
    assert_eq!(guard.state(), HoldState::Safe);
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn a_fixed_hold_ends_by_itself_and_an_extension_moves_its_end() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap().fixed(ms(500)).unwrap();
    let guard = take(&lock).await;
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert_eq!(guard.release().await.unwrap(), Outcome::Lost(LostReason::Expired));
    let guard = lock.acquire().await.unwrap();
    for _ in 0..10 {
        let remaining = guard.extend_to(Duration::from_secs(10)).await.unwrap();
        assert!(remaining > Duration::from_secs(5) && remaining <= Duration::from_secs(10));
    }
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn max_hold_bounds_work_that_hangs() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    let guard = take(&lock.clone().max_hold(ms(400)).unwrap()).await;
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    eventually("it is free, long before its lease of 30 s", SOON, async || {
        lock.inspect().await.unwrap().is_free()
    })
    .await;
}

#[tokio::test]
async fn re_entry_keeps_the_token_and_the_last_guard_releases() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    let outer = take(&lock).await;
    let (inner, carried) = (outer.reenter(), lock.acquire_as(&outer.owner()).unwrap());
    assert_eq!((inner.token(), carried.token()), (outer.token(), outer.token()));
    assert_eq!(outer.release().await.unwrap(), Outcome::StillHeld);
    drop(inner);
    assert!(lock.try_acquire().await.unwrap().is_busy());
    assert_eq!(carried.release().await.unwrap(), Outcome::Released);
    assert!(lock.inspect().await.unwrap().is_free());
}

#[tokio::test]
async fn tokens_rise_and_have_sixteen_exact_digits() {
    let server = Server::start().await;
    let clients = [client(&server).await, client(&server).await];
    let mut last = 0;
    for n in 0..20 {
        let lock = clients[n % 2].lock("a").unwrap();
        let guard = take(&lock).await;
        let token = guard.token().sequence();
        assert!(token > last && token.to_string().len() == 16, "{token} after {last}");
        assert_eq!(lock.inspect().await.unwrap().held().unwrap().holder().token(), token);
        last = token;
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

#[tokio::test]
async fn what_must_be_refused_is_refused_by_name() {
    let server = Server::start().await;
    let client = client(&server).await;
    for (name, rule) in [("", "empty"), ("a{b", "braces"), ("a{b}:queue", "`:queue`")] {
        let error = client.lock(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(rule), "{error}");
    }
    let error = client.lock("a").unwrap().renewed(ms(100)).unwrap_err();
    assert!(error.to_string().contains("the shortest is 200ms"), "{error}");
}

#[tokio::test]
async fn run_keeps_the_works_result_and_the_locks_apart() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    let done = lock.run(|held| async move { (held.is_held(), held.token()) }).await.unwrap();
    assert!(done.output.0);
    assert_eq!(done.release.unwrap(), Outcome::Released);
    // The work is dropped when the lock is lost.
    let never = lock.clone().fixed(ms(400)).unwrap().run(|_| std::future::pending::<()>()).await;
    let error = never.unwrap_err();
    assert_eq!((error.kind(), error.lost_reason()), (ErrorKind::Lost, Some(LostReason::Expired)));
    // A panic in the work releases and goes on.
    let panics = tokio::spawn({
        let lock = lock.clone();
        async move {
            lock.run(|_| async { panic!("the work's own") })
                .await
                .map(|done: leasehold::Done<()>| done.output)
        }
    });
    assert!(panics.await.unwrap_err().is_panic());
    let guard = tokio::time::timeout(SOON, lock.acquire()).await.expect("released").unwrap();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}
