//! Must hold 3: the future is dropped after its first poll, its second, and so on until it is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::{Client, Lock};
use leasehold_testkit::Server;
use leasehold_tests::eye::Eye;
use leasehold_tests::{client, take};
use tokio::runtime::Handle;

use crate::{Cut, SOON, poll_up_to, tasks_are};

/// No future here needs more polls than this.
const POLLS: usize = 40;

#[derive(Clone, Copy, Debug)]
enum Call {
    TryAcquire,
    Acquire,
    AcquireWithin,
    WaitUntilFree,
}

const CALLS: [Call; 4] = [Call::TryAcquire, Call::Acquire, Call::AcquireWithin, Call::WaitUntilFree];

/// One call, and the release of what it gives.
async fn call(call: Call, lock: &Lock) {
    let guard = match call {
        Call::TryAcquire => lock.try_acquire().await.unwrap().acquired(),
        Call::Acquire => Some(lock.acquire().await.unwrap()),
        Call::AcquireWithin => lock.acquire_within(SOON * 6).await.unwrap().acquired(),
        Call::WaitUntilFree => {
            lock.wait_until_free().await.unwrap();
            None
        }
    };
    // By drop: what is counted here are the polls of the call.
    drop(guard);
}

#[tokio::test]
async fn must_3_dropped_at_any_poll_on_a_free_lock() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let client = client(&server).await;
    // The first call of all is answered NOSCRIPT and has polls of its own.
    drop(take(&client.lock("warm").unwrap()).await);
    eye.nothing_left(SOON).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    for each in CALLS {
        for cut in [Cut::AtOnce, Cut::WhenWoken] {
            let mut polls = 1;
            while poll_up_to(polls, cut, call(each, &client.lock("a").unwrap())).await.is_none() {
                eye.nothing_left(SOON).await;
                tasks_are(tasks).await;
                polls += 1;
                assert!(polls < POLLS, "{each:?} is never done");
            }
            println!("{each:?} {cut:?}: done with poll {polls}");
            assert!(polls > 1, "{each:?} was never dropped");
            eye.nothing_left(SOON).await;
        }
    }
    assert_whole(&client, &mut eye).await;
}

#[tokio::test]
async fn must_3_dropped_at_any_poll_on_a_contended_lock() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let (holder, waiting) = (client(&server).await, client(&server).await);
    for each in CALLS {
        for cut in [Cut::AtOnce, Cut::WhenWoken] {
            let mut polls = 1;
            while contended(&server, &holder, &waiting, each, cut, polls).await.is_none() {
                polls += 1;
                assert!(polls < POLLS, "{each:?} is never done");
            }
            println!("{each:?} {cut:?}: done with poll {polls}");
            assert!(polls > 1, "{each:?} was never dropped");
        }
    }
    assert_whole(&waiting, &mut eye).await;
}

/// The same for a client's first wait, which opens its push channel on the way.
#[tokio::test]
async fn must_3_dropped_at_any_poll_of_the_first_wait() {
    let server = Server::own().await;
    let holder = client(&server).await;
    for cut in [Cut::AtOnce, Cut::WhenWoken] {
        let mut polls = 1;
        loop {
            let waiting = client(&server).await;
            let done = contended(&server, &holder, &waiting, Call::Acquire, cut, polls).await;
            assert_whole(&waiting, &mut Eye::on(&server).await).await;
            waiting.close_within(SOON).await;
            if done.is_some() {
                break;
            }
            polls += 1;
            assert!(polls < POLLS, "it is never done");
        }
        println!("first wait {cut:?}: done with poll {polls}");
        assert!(polls > 2);
    }
}

/// One call on a lock that somebody holds until the call waits, or is over.
async fn contended(
    server: &Server,
    holder: &Client,
    waiting: &Client,
    each: Call,
    cut: Cut,
    polls: usize,
) -> Option<()> {
    let mut eye = Eye::on(server).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    let guard = take(&holder.lock("a").unwrap()).await;
    let over = Arc::new(AtomicBool::new(false));
    let release = tokio::spawn({
        let mut eye = Eye::on(server).await;
        let over = over.clone();
        async move {
            while eye.queued("a").await == 0 && !over.load(Ordering::Acquire) {
                tokio::task::yield_now().await;
            }
            guard.release().await.unwrap()
        }
    });
    let done = poll_up_to(polls, cut, call(each, &waiting.lock("a").unwrap())).await;
    over.store(true, Ordering::Release);
    let _ = release.await.unwrap();
    eye.nothing_left(SOON).await;
    // The first wait of a client leaves its push connection, with a few tasks.
    tasks_are(tasks + 8).await;
    done
}

/// The client works as on its first day: a contended lock is waited for and handed over.
async fn assert_whole(client: &Client, eye: &mut Eye) {
    let lock = client.lock("whole").unwrap();
    let guard = take(&lock).await;
    let waiter = tokio::spawn(async move { drop(lock.acquire().await.unwrap()) });
    eye.queue_is("whole", 1).await;
    drop(guard);
    tokio::time::timeout(SOON, waiter).await.expect("handed over").unwrap();
    eye.nothing_left(SOON).await;
}

/// A dropped release goes on in the background.
#[tokio::test]
async fn must_3_dropped_at_any_poll_of_a_release() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let client = client(&server).await;
    drop(take(&client.lock("warm").unwrap()).await);
    eye.nothing_left(SOON).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    for cut in [Cut::AtOnce, Cut::WhenWoken] {
        for polls in 1.. {
            let guard = take(&client.lock("a").unwrap()).await;
            let held = guard.held();
            let done = poll_up_to(polls, cut, guard.release()).await;
            assert!(!held.is_held(), "from its first poll on it is over");
            eye.nothing_left(SOON).await;
            tasks_are(tasks).await;
            if let Some(outcome) = done {
                assert_eq!(outcome.unwrap(), leasehold::Outcome::Released);
                assert!(polls > 1, "it was never dropped");
                break;
            }
        }
    }
    // Never polled at all.
    let guard = take(&client.lock("a").unwrap()).await;
    drop(guard.release());
    eye.nothing_left(SOON).await;
}

/// A dropped question changes nothing.
#[tokio::test]
async fn must_3_dropped_at_any_poll_of_a_confirm() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap().renewed(Duration::from_secs(2)).unwrap();
    drop(take(&lock).await);
    eye.nothing_left(SOON).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    for cut in [Cut::AtOnce, Cut::WhenWoken] {
        let guard = take(&lock).await;
        for polls in 1.. {
            let done = poll_up_to(polls, cut, guard.confirm()).await;
            assert!(guard.is_held(), "{cut:?} {polls}");
            tasks_are(tasks).await;
            if let Some(asked) = done {
                assert!(asked.unwrap() > Duration::ZERO);
                assert!(polls > 1, "it was never dropped");
                break;
            }
        }
        // Renewed as ever.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(guard.is_held(), "{cut:?}");
        assert_eq!(guard.release().await.unwrap(), leasehold::Outcome::Released);
        eye.nothing_left(SOON).await;
    }
}
