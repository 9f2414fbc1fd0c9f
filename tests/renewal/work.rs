//! Work that must not outlive its lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{ErrorKind, LostReason, Outcome};
use leasehold_testkit::{Relay, Server, eventually};
use leasehold_tests::client;

use crate::support::{LEASE, SOON, exists, options_through, throughout};

/// Says when it was dropped.
#[derive(Clone, Default)]
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn case_x55_work_that_panics_releases_and_the_panic_goes_on() {
    let server = Server::own().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = one.lock("a").unwrap();
    let failed = tokio::spawn(async move {
        lock.run(async |held| {
            assert!(held.is_held());
            tokio::task::yield_now().await;
            panic!("the work's own panic");
        })
        .await
        .map(|done| done.output)
    });
    let panic = failed.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the work's own panic"));
    // The lease is 30 s: the lock was released.
    assert!(!two.lock("a").unwrap().acquire_within(SOON).await.unwrap().is_busy());
    // And the client is whole.
    assert!(!one.lock("a").unwrap().acquire_within(SOON).await.unwrap().is_busy());
}

#[tokio::test]
async fn work_is_dropped_when_its_lock_is_lost() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap().renewed(LEASE).unwrap();
    let (polls, dropped) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let run = tokio::spawn({
        let (polls, dropped) = (polls.clone(), Dropped(dropped.clone()));
        async move {
            lock.run(async move |_| {
                let _dropped = dropped;
                loop {
                    polls.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
            .await
            .map(|done| done.output)
        }
    });
    eventually("the work runs", SOON, async || polls.load(Ordering::SeqCst) > 10).await;
    admin.call(&["DEL", "t:a"]).await;
    let error: leasehold::Error = match run.await.unwrap() {
        Err(error) => error,
        Ok(never) => never,
    };
    assert_eq!((error.kind(), error.lost_reason()), (ErrorKind::Lost, Some(LostReason::Gone)));
    assert!(dropped.load(Ordering::SeqCst));
    let last = polls.load(Ordering::SeqCst);
    throughout(LEASE / 3, async || assert_eq!(polls.load(Ordering::SeqCst), last, "polled again")).await;
}

#[tokio::test]
async fn the_works_result_and_the_release_are_told_apart() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let relay = Relay::to(&server);
    let client = options_through(&server, &relay).connect().await.unwrap();
    let lock = client.lock("a").unwrap();

    let done = lock.run(async |held| (held.is_held(), held.token())).await.unwrap();
    assert!(done.output.0);
    assert_eq!(done.release.unwrap(), Outcome::Released);

    // The work's own error is its output, and the lock has nothing to do with it.
    let done = lock.run(async |_| Err::<(), _>("the work's own")).await.unwrap();
    assert_eq!((done.output, done.release.unwrap()), (Err("the work's own"), Outcome::Released));

    // The hold ended under the work, which did not notice: its result is there, and so is the loss.
    let done = lock.run(async |_| admin.call(&["DEL", "t:a"]).await.int()).await.unwrap();
    assert_eq!((done.output, done.release.unwrap()), (1, Outcome::Lost(LostReason::Gone)));

    // The server cannot be reached for the release.
    let done = lock
        .run(async |_| {
            relay.refuse();
            relay.cut();
            "done"
        })
        .await
        .unwrap();
    assert_eq!((done.output, done.release.unwrap()), ("done", Outcome::Unknown));
    relay.accept();
    // The background goes on: its lease is 30 s.
    eventually("released in the end", SOON, async || !exists(&mut admin, "t:a").await).await;

    // The server refuses the release for good.
    eventually("connected", SOON, async || lock.inspect().await.is_ok()).await;
    let url = server.url();
    let user = url.trim_start_matches("redis://").split(':').next().unwrap();
    let done = lock
        .run(async |_| {
            admin.call(&["ACL", "SETUSER", user, "-evalsha", "-eval"]).await;
            "done"
        })
        .await
        .unwrap();
    assert_eq!((done.output, done.release.unwrap_err().kind()), ("done", ErrorKind::Denied));
}

#[tokio::test]
async fn a_run_that_is_dropped_drops_its_work_and_releases() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    let dropped = Arc::new(AtomicBool::new(false));
    let mine = Dropped(dropped.clone());
    let run = tokio::spawn(async move {
        lock.run(async move |_| {
            let _mine = mine;
            std::future::pending::<()>().await;
        })
        .await
        .is_ok()
    });
    eventually("the work runs", SOON, async || exists(&mut admin, "t:a").await).await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    assert!(dropped.load(Ordering::SeqCst));
    eventually("released", SOON, async || !exists(&mut admin, "t:a").await).await;
}
