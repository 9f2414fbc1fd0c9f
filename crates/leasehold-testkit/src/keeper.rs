//! A runtime that outlives every test, for what must go on when a test's own runtime has ended.

use std::future::Future;
use std::sync::{OnceLock, mpsc};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

fn keeper() -> &'static Handle {
    static KEEPER: OnceLock<Runtime> = OnceLock::new();
    let start = || {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("testkit").enable_all().build();
        runtime.unwrap_or_else(|error| panic!("no runtime for the testkit: {error}"))
    };
    KEEPER.get_or_init(start).handle()
}

/// Goes on there until it ends or is aborted.
pub(crate) fn keep<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    keeper().spawn(work)
}

/// Runs there, awaited here. Also keeps a client library's pooled connections on one runtime.
pub(crate) async fn there<F>(work: F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    match keep(work).await {
        Ok(output) => output,
        Err(error) => panic!("the testkit's runtime: {error}"),
    }
}

/// Runs there and blocks this thread until it is done: for `Drop`, inside a runtime or without one.
pub(crate) fn at_last(work: impl Future<Output = ()> + Send + 'static) {
    let (done, wait) = mpsc::channel::<()>();
    keep(async move {
        let _done = done;
        work.await;
    });
    // An error is the sender's end: the work is over.
    let _over = wait.recv();
}
