//! What a client's handles and tasks share, and how the tasks begin and end.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::error;
use uuid::Uuid;

use super::release::{Janitor, Job};
use super::table::Table;
use super::{check, renew};
use crate::backoff::{Backoff, Chance};
use crate::clock::Moment;
use crate::lease::Margin;
use crate::owner::OwnerId;
use crate::server::{Push, Server};

/// What a client was configured with, as far as the life of a hold needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) command_timeout: Duration,
    pub(crate) backoff: Backoff,
    /// The least that is taken off every deadline.
    pub(crate) margin: Duration,
}

/// Everything that outlives a call. The tasks hold this; the handles hold [`Core`].
pub(crate) struct Shared {
    pub(crate) server: Arc<dyn Server>,
    pub(crate) client: Uuid,
    pub(crate) settings: Settings,
    pub(crate) chance: Chance,
    /// Passes that nobody waits for. Sending never blocks and needs no runtime.
    pub(crate) jobs: mpsc::UnboundedSender<Job>,
    pub(crate) janitor: Janitor,
    /// A renewal, or a check, became due earlier than its task knows.
    pub(crate) renewals: Notify,
    pub(crate) checks: Notify,
    pub(crate) lateness: renew::Lateness,
    /// The push channel was confirmed once: a wait can begin with its first command.
    pub(crate) listening: AtomicBool,
    table: Mutex<Table>,
    owners: AtomicU64,
}

impl Shared {
    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        // A panic between two changes of the table can at worst leave one owner unfinished; refusing
        // every other hold for it would be worse.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn fresh_owner(&self) -> OwnerId {
        OwnerId { client: self.client, count: self.owners.fetch_add(1, Ordering::Relaxed) }
    }

    pub(crate) fn margin(&self, now: Moment) -> Margin {
        Margin { safety: self.settings.margin.max(self.lateness.greatest(now)) }
    }

    /// Hands a pass to the janitor. When its task is gone, so is the client: the lease ends it.
    pub(crate) fn pass_later(&self, job: Job) {
        self.janitor.expect(1);
        if self.jobs.send(job).is_err() {
            self.janitor.done();
        }
    }
}

/// The handles' side of a client: when the last of them is gone, its tasks finish what is under way
/// and end.
pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    stop: CancellationToken,
    aborts: Vec<AbortHandle>,
    tasks: tokio::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Core {
    pub(crate) fn start(
        server: Arc<dyn Server>,
        pushes: mpsc::UnboundedReceiver<Push>,
        client: Uuid,
        settings: Settings,
    ) -> Arc<Self> {
        let (jobs, inbox) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            server,
            client,
            settings,
            chance: Chance::new(client.as_u64_pair().1),
            jobs,
            janitor: Janitor::default(),
            renewals: Notify::new(),
            checks: Notify::new(),
            lateness: renew::Lateness::default(),
            listening: AtomicBool::new(false),
            table: Mutex::default(),
            owners: AtomicU64::new(1),
        });
        let stop = CancellationToken::new();
        let tasks = vec![
            tokio::spawn({
                let (shared, stop) = (shared.clone(), stop.clone());
                async move {
                    undying("watchdog", || {
                        shared.table().forget_asking();
                        renew::watchdog(&shared, &stop)
                    })
                    .await;
                }
            }),
            tokio::spawn({
                let (shared, stop) = (shared.clone(), stop.clone());
                let pushes = Arc::new(tokio::sync::Mutex::new(pushes));
                async move {
                    undying("waits", || {
                        let wakers = shared.table().forget_checks();
                        wakers.into_iter().for_each(Waker::wake);
                        check::waits(&shared, &pushes, &stop)
                    })
                    .await;
                }
            }),
            tokio::spawn({
                let (shared, stop) = (shared.clone(), stop.clone());
                async move {
                    let inbox = Arc::new(tokio::sync::Mutex::new(inbox));
                    undying("janitor", || super::release::janitor(&shared, &inbox, &stop)).await;
                    // Last of the tasks: what was dropped with the last handle has been passed.
                    shared.server.close(shared.settings.command_timeout).await;
                }
            }),
        ];
        let aborts = tasks.iter().map(JoinHandle::abort_handle).collect();
        Arc::new(Self { shared, stop, aborts, tasks: tokio::sync::Mutex::new(tasks) })
    }

    /// Lets the tasks end.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until they have ended. Whoever comes second waits as long; dropped, it changes nothing.
    pub(crate) async fn stopped(&self) {
        let mut tasks = self.tasks.lock().await;
        while let Some(task) = tasks.last_mut() {
            // A task ends by itself; if its runtime is shutting down it is gone already.
            let _ = task.await;
            tasks.pop();
        }
    }

    /// Ends what is left of tasks and connections at once.
    pub(crate) async fn cut(&self) {
        self.stop();
        self.aborts.iter().for_each(AbortHandle::abort);
        self.shared.janitor.abandon();
        // The janitor did not come to it.
        self.shared.server.close(Duration::ZERO).await;
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Runs a task's loop to its end. After a panic the loop is begun again: one bad hold must not end
/// the renewal of all others.
async fn undying<F: Future<Output = ()>>(task: &'static str, mut run: impl FnMut() -> F) {
    while contained(task, run()).await.is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Contains and tells a panic of `work`: `None`.
pub(super) async fn contained<T>(task: &'static str, work: impl Future<Output = T>) -> Option<T> {
    let panic = match AssertUnwindSafe(work).catch_unwind().await {
        Ok(done) => return Some(done),
        Err(panic) => panic,
    };
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("?");
    error!(task, panic = text, "a background task panicked; it goes on");
    None
}

#[cfg(test)]
mod tests;
