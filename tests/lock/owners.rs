//! A hold belongs to whoever has the guard: never to a thread, a task, a handle or a client.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::{Attempt, Client, ErrorKind, Guard, Held, LostReason, Outcome, Owner};
use leasehold_testkit::{Server, stats};
use leasehold_tests::{client, options, take};
use tokio::task::JoinSet;

use crate::support::{SOON, busy, loss_of, ms, until_free};

/// Whether a type is `Clone`, told without a compiler error either way: the method of the inherent
/// impl wins where its bound holds.
struct Probe<T>(T);

trait NotClone {
    const CLONE: bool = false;
}

impl<T> NotClone for Probe<T> {}

impl<T: Clone> Probe<T> {
    const CLONE: bool = true;
}

const fn sendable<T: Send + Sync + 'static>() {}

#[test]
fn case_x54_a_guard_is_sent_and_shared_and_never_cloned() {
    // Compile time: this file does not build where it is not so.
    const {
        assert!(!Probe::<Guard>::CLONE, "a clone's drop would end the hold of the other");
        assert!(!Probe::<Attempt>::CLONE);
        assert!(Probe::<Held>::CLONE && Probe::<Owner>::CLONE, "they keep nothing held");
        sendable::<Guard>();
        sendable::<Attempt>();
        sendable::<Held>();
        sendable::<Owner>();
        sendable::<Client>();
    }
}

#[tokio::test]
async fn case_x54_views_and_owner_handles_keep_nothing_held() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    let guard = take(&lock).await;
    let (view, owner) = (guard.held(), guard.owner());
    let copies = (view.clone(), owner.clone());
    drop(copies);
    assert!(guard.confirm().await.is_ok(), "a dropped view releases nothing");
    drop(guard);
    until_free(&lock).await;
    assert!(!view.is_held());
    assert_eq!(view.remaining(), Duration::ZERO);
    assert_eq!(lock.acquire_as(&owner).unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_o1_a_guard_is_released_from_any_task_and_any_thread() {
    let server = Server::start().await;
    let client = client(&server).await;
    let mut moved = JoinSet::new();
    for n in 0..40 {
        let lock = client.lock(&format!("a{n}")).unwrap();
        moved.spawn(async move {
            let guard = tokio::spawn(async move { take(&lock).await }).await.unwrap();
            if n % 2 == 0 {
                return tokio::spawn(guard.release()).await.unwrap().unwrap();
            }
            // For certain another thread, and another runtime.
            let other = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(guard.release()).unwrap()
            });
            tokio::task::spawn_blocking(|| other.join().unwrap()).await.unwrap()
        });
    }
    assert_eq!(moved.join_all().await, [Outcome::Released; 40]);
    for n in 0..40 {
        assert!(client.lock(&format!("a{n}")).unwrap().inspect().await.unwrap().is_free());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_o2_ten_thousand_tasks_on_four_workers_block_none() {
    const NAMES: usize = 500;
    let server = Server::own().await;
    // Ten thousand commands at once are answered one after the other.
    let client = options(&server).command_timeout(Duration::from_secs(30)).connect().await.unwrap();
    let inside: Arc<Vec<AtomicBool>> = Arc::new((0..NAMES).map(|_| AtomicBool::new(false)).collect());
    // Stalls if all workers are blocked.
    let ticks = Arc::new(AtomicUsize::new(0));
    let ticker = tokio::spawn({
        let ticks = ticks.clone();
        async move {
            loop {
                tokio::task::yield_now().await;
                ticks.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(ms(5)).await;
            }
        }
    });
    let mut tasks = JoinSet::new();
    for n in 0..10_000 {
        let lock = client.lock(&format!("a{}", n % NAMES)).unwrap();
        let inside = inside.clone();
        tasks.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            assert!(!inside[n % NAMES].swap(true, Ordering::AcqRel), "two inside");
            tokio::task::yield_now().await;
            inside[n % NAMES].store(false, Ordering::Release);
            guard.release().await.unwrap()
        });
    }
    let outcomes = tasks.join_all().await;
    assert_eq!(outcomes.len(), 10_000);
    let odd: Vec<_> = outcomes.iter().filter(|outcome| **outcome != Outcome::Released).collect();
    assert!(odd.is_empty(), "{} of {odd:?}", odd.len());
    assert!(ticks.load(Ordering::Relaxed) > 20, "the timer of the runtime went on");
    ticker.abort();
}

#[tokio::test]
async fn case_o4_clones_of_a_client_and_two_clients_never_share_an_owner() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let clone = one.clone();
    let guard = take(&one.lock("a").unwrap()).await;
    let told = busy(&clone.lock("a").unwrap()).await;
    assert_eq!(told.holder().unwrap().client().unwrap().owner(), guard.owner_id(), "a clone is no owner");
    let mut owners = HashSet::new();
    let mut uuids = HashSet::new();
    for n in 0..150 {
        let client = [&one, &clone, &two][n % 3];
        let guard = take(&client.lock(&format!("b{n}")).unwrap()).await;
        let owner = guard.owner_id();
        uuids.insert(owner.split_once(':').unwrap().0.to_owned());
        assert!(owners.insert(owner), "an owner is good for one hold");
    }
    assert_eq!(uuids.len(), 2, "one uuid for each client, clones included");
}

#[tokio::test]
async fn case_o6_re_entry_is_asked_for_and_every_guard_must_go() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = one.lock("a").unwrap();
    let outer = take(&lock).await;
    assert!(busy(&lock).await.holder().is_some(), "the same task, without asking, is refused");

    let before = stats(&mut admin).await;
    let inner = outer.reenter();
    let carried = lock.acquire_as(&outer.owner()).unwrap();
    assert_eq!((inner.token(), carried.token()), (outer.token(), outer.token()));
    assert_eq!(inner.owner_id(), outer.owner_id());
    assert_eq!(outer.release().await.unwrap(), Outcome::StillHeld);
    drop(carried);
    assert_eq!((stats(&mut admin).await - before).scripts(), 0, "counted in the client");

    assert!(inner.is_held() && inner.confirm().await.is_ok());
    busy(&two.lock("a").unwrap()).await;
    assert_eq!(inner.release().await.unwrap(), Outcome::Released);
    assert!(!two.lock("a").unwrap().try_acquire().await.unwrap().is_busy());
}

#[tokio::test]
async fn case_o6_an_owner_is_good_for_one_hold_of_one_lock() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    let guard = take(&lock).await;
    let owner = guard.owner();
    let other = client.lock("b").unwrap();
    let error = other.acquire_as(&owner).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains(lock.name()), "it says whose owner it is: {error}");

    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    let again = take(&lock).await;
    assert_eq!(lock.acquire_as(&owner).unwrap_err().kind(), ErrorKind::Invalid, "not even the next hold");
    assert_eq!(again.release().await.unwrap(), Outcome::Released);

    let lost = take(&lock.clone().fixed(ms(300)).unwrap()).await;
    let owner = lost.owner();
    assert_eq!(loss_of(&lost).await, LostReason::Expired);
    let error = lock.acquire_as(&owner).unwrap_err();
    assert_eq!((error.kind(), error.lost_reason()), (ErrorKind::Lost, Some(LostReason::Expired)));
}

#[tokio::test]
async fn re_entered_guards_share_one_loss_and_none_of_them_releases_the_next_hold() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    let outer = take(&lock.clone().fixed(ms(300)).unwrap()).await;
    let inner = outer.reenter();
    let next = lock.acquire().await.unwrap();
    assert!(!outer.is_held() && !inner.is_held());
    assert_eq!(loss_of(&outer).await, LostReason::Expired);
    assert_eq!(loss_of(&inner).await, LostReason::Expired);
    drop(outer);
    assert!(matches!(inner.release().await.unwrap(), Outcome::Lost(LostReason::Expired)));
    client.lock("b").unwrap().inspect().await.unwrap();
    assert!(next.confirm().await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re_entry_against_the_last_release_gives_a_whole_guard_or_none() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    for _ in 0..200 {
        let guard = tokio::time::timeout(SOON, lock.acquire()).await.unwrap().unwrap();
        let owner = guard.owner();
        let entering = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire_as(&owner) }
        });
        let outcome = guard.release().await.unwrap();
        match entering.await.unwrap() {
            Ok(entered) => {
                assert_eq!(outcome, Outcome::StillHeld);
                assert!(entered.is_held());
                assert_eq!(entered.release().await.unwrap(), Outcome::Released);
            }
            Err(error) => {
                assert_eq!((outcome, error.kind()), (Outcome::Released, ErrorKind::Invalid));
            }
        }
    }
}
