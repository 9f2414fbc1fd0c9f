//! Guards that are dropped where nothing can be awaited.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use leasehold::{Client, Guard, Outcome};
use leasehold_testkit::{Admin, Server, eventually};
use leasehold_tests::{client, take};
use tokio::runtime::{Builder, Runtime};

use crate::support::{LEASE, SOON, exists};

/// The runtime of the test itself, which must live longer than that of the client.
fn outside() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn many_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

struct Stage {
    outside: Runtime,
    server: Server,
    admin: Admin,
}

impl Stage {
    fn new() -> Self {
        let outside = outside();
        let server = outside.block_on(Server::own());
        let admin = outside.block_on(server.admin());
        Self { outside, server, admin }
    }

    /// A guard of `a`, by a client whose tasks run in `runtime`.
    fn guard(&self, runtime: &Runtime, lease: Duration) -> (Client, Guard) {
        runtime.block_on(async {
            let client = client(&self.server).await;
            let guard = take(&client.lock("a").unwrap().renewed(lease).unwrap()).await;
            (client, guard)
        })
    }

    /// Within a lease of 30 s that was a release; otherwise it may be an expiry.
    fn gone(&mut self) {
        let Self { outside, admin, .. } = self;
        outside.block_on(eventually("the key is gone", SOON, async || !exists(admin, "t:a").await));
    }
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn case_x52_must_8_dropped_in_a_thread_without_a_runtime_it_is_released() {
    let mut stage = Stage::new();
    let runtime = many_threads();
    let (_client, guard) = stage.guard(&runtime, LONG);
    thread::spawn(move || drop(guard)).join().unwrap();
    stage.gone();
}

#[test]
fn case_x52_must_8_dropped_in_a_runtime_of_one_thread_it_is_released() {
    let mut stage = Stage::new();
    let runtime = outside();
    let (client, guard) = stage.guard(&runtime, LONG);
    runtime.block_on(async {
        drop(guard);
        client.lock("a").unwrap().acquire().await.map(drop).unwrap();
        client.close_within(SOON).await;
    });
    stage.gone();
}

/// Nobody drives the client's runtime when the guard is dropped; it is driven again later.
#[test]
fn case_x52_must_8_dropped_while_its_runtime_stands_still_it_is_released_later() {
    let mut stage = Stage::new();
    let runtime = outside();
    let (_client, guard) = stage.guard(&runtime, LONG);
    drop(guard);
    assert!(stage.outside.block_on(exists(&mut stage.admin, "t:a")), "nobody can have released it");
    runtime.block_on(async {
        let mut admin = stage.server.admin().await;
        eventually("the key is gone", SOON, async || !exists(&mut admin, "t:a").await).await;
    });
}

#[test]
fn case_x52_must_8_dropped_in_another_runtime_it_is_released() {
    let mut stage = Stage::new();
    let (runtime, other) = (many_threads(), outside());
    let (client, guard) = stage.guard(&runtime, LONG);
    other.block_on(async move { drop(guard) });
    stage.gone();
    // An explicit release works from there too, and so does the drop of the last handles.
    let guard = runtime.block_on(take_a(&client));
    assert_eq!(other.block_on(guard.release()).unwrap(), Outcome::Released);
    let guard = runtime.block_on(take_a(&client));
    other.block_on(async move { drop((client, guard)) });
    stage.gone();
}

async fn take_a(client: &Client) -> Guard {
    client.lock("a").unwrap().acquire().await.unwrap()
}

/// The task that owns the guard is dropped by the shutdown of the runtime that all of it runs in.
#[test]
fn case_x52_must_8_dropped_by_the_shutdown_of_its_runtime_it_expires_at_last() {
    for runtime in [many_threads(), outside()] {
        let mut stage = Stage::new();
        let (client, guard) = stage.guard(&runtime, LEASE);
        let waiting = client.lock("a").unwrap();
        runtime.spawn(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        runtime.spawn(async move { waiting.acquire().await.map(drop) });
        let run = client.lock("b").unwrap();
        runtime.spawn(async move { run.run(async |_| std::future::pending::<()>().await).await.is_ok() });
        runtime.block_on(async { tokio::task::yield_now().await });
        runtime.shutdown_timeout(SOON);
        drop(client);
        stage.gone();
    }
}

/// Everything of the client is gone but its handles.
#[test]
fn case_x52_must_8_dropped_after_the_end_of_its_runtime_it_expires_and_nothing_hangs() {
    let mut stage = Stage::new();
    let runtime = many_threads();
    let (client, guard) = stage.guard(&runtime, LEASE);
    let other = runtime.block_on(take_b(&client));
    let third = runtime.block_on(async { client.lock("c").unwrap().try_acquire().await.unwrap() });
    runtime.shutdown_timeout(SOON);
    drop(guard);
    // Asked from another runtime, it ends, and claims nothing.
    stage.outside.block_on(async {
        let outcome = tokio::time::timeout(SOON, other.release()).await.expect("a release hangs");
        assert!(!matches!(outcome, Ok(Outcome::Released)), "{outcome:?}");
        let closed = tokio::time::timeout(SOON * 2, client.close_within(Duration::from_secs(1))).await;
        closed.expect("closing hangs");
    });
    drop(third);
    drop(client);
    stage.gone();
}

async fn take_b(client: &Client) -> Guard {
    take(&client.lock("b").unwrap()).await
}

#[test]
fn case_x52_must_8_dropped_by_a_panic_it_is_released() {
    let mut stage = Stage::new();
    let runtime = many_threads();
    let (client, guard) = stage.guard(&runtime, LONG);
    // In a task,
    let task = runtime.spawn(async move {
        let _guard = guard;
        panic!("a task's panic");
    });
    assert!(runtime.block_on(task).unwrap_err().is_panic());
    stage.gone();
    // in a thread without a runtime,
    let guard = runtime.block_on(take_a(&client));
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _guard = guard;
        panic!("a thread's panic");
    }));
    assert!(panicked.is_err());
    stage.gone();
    // and with everything else of the client.
    let guard = runtime.block_on(take_a(&client));
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _all = (client, guard);
        panic!("a thread's panic");
    }));
    assert!(panicked.is_err());
    stage.gone();
}
