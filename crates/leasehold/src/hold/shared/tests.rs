//! A panic in a background task, brought about by a server that panics.

use std::fmt::{Debug, Write as _};
use std::sync::atomic::AtomicU32;

use tokio::time::{sleep, timeout};
use tracing::field::{Field, Visit};
use tracing::span;

use super::*;
use crate::hold::{Spec, Tried, attempt};
use crate::key::Keys;
use crate::lease::Kind;
use crate::outcome::{HoldState, Outcome};
use crate::server::{Call, Claim, Fault, Looked, Mine, Pass, Passed, Renew, Reply, ServerTime, Take, Taken};

const LEASE: Duration = Duration::from_millis(900);

/// Grants everything, but panics at the first so many renewals and passes.
#[derive(Default)]
struct Panicky {
    renewals: AtomicU32,
    passes: AtomicU32,
    bad_renewals: u32,
    bad_passes: u32,
}

fn count(done: &AtomicU32, bad: u32) {
    assert!(done.fetch_add(1, Ordering::SeqCst) >= bad, "the server's own panic");
}

fn reply<T>(body: T) -> Reply<T> {
    Reply { at: ServerTime(0), grant: None, body }
}

impl Server for Panicky {
    fn take<'a>(&'a self, take: Take<'a>, _: Duration) -> Call<'a, Reply<Taken>> {
        let remaining = take.lease;
        Box::pin(async move { Ok(reply(Taken::Held { token: 1, remaining, unclaimed: false })) })
    }

    fn claim<'a>(&'a self, _: Claim<'a>, _: Duration) -> Call<'a, Reply<Mine>> {
        Box::pin(async { Err(Fault::garbled("claim")) })
    }

    fn renew<'a>(&'a self, batch: &'a [Renew], _: Duration) -> Call<'a, Vec<Result<Mine, Fault>>> {
        Box::pin(async move {
            count(&self.renewals, self.bad_renewals);
            Ok(batch.iter().map(|ask| Ok(Mine::Yes { token: 1, remaining: ask.lease })).collect())
        })
    }

    fn pass<'a>(&'a self, _: Pass<'a>, _: Duration) -> Call<'a, Reply<Passed>> {
        Box::pin(async move {
            // Others come to be under way, and to wait, in the meantime.
            sleep(Duration::from_millis(50)).await;
            count(&self.passes, self.bad_passes);
            Ok(reply(Passed::Released { broken: None }))
        })
    }

    fn look<'a>(&'a self, _: &'a Keys, _: Duration) -> Call<'a, Looked> {
        Box::pin(async { Err(Fault::garbled("look")) })
    }

    fn listen(&self, _: Duration) -> Call<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn repair(&self) {}

    fn close(&self, _: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {})
    }

    fn address(&self) -> &'static str {
        "nowhere"
    }
}

/// Counts the errors that are logged in this thread.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl tracing::Subscriber for Errors {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn start(server: Panicky) -> (Arc<Core>, Arc<Panicky>) {
    let server = Arc::new(server);
    let backoff =
        Backoff { first: Duration::from_millis(10), cap: Duration::from_millis(100), jitter: Duration::ZERO };
    let settings =
        Settings { command_timeout: Duration::from_secs(1), backoff, margin: Duration::from_millis(50) };
    // The sender is dropped: no push will come.
    let (_, pushes) = mpsc::unbounded_channel();
    (Core::start(server.clone(), pushes, Uuid::nil(), settings), server)
}

async fn hold(core: &Core, name: &str) -> Arc<crate::hold::Record> {
    let keys = Keys::new("", name).unwrap();
    let spec = Spec { keys, lease: LEASE, kind: Kind::Renewed, max_hold: None, who: "p1".to_owned() };
    match attempt(&core.shared, &Arc::new(spec)).await.unwrap() {
        Tried::Held(record) => record,
        Tried::Busy(busy) => panic!("{busy}"),
    }
}

#[tokio::test]
async fn case_r8_a_panic_in_the_renewal_is_contained_and_logged_and_no_hold_is_lost() {
    let errors = Errors::default();
    let _kept = tracing::subscriber::set_default(errors.clone());
    let (core, server) = start(Panicky { bad_renewals: 2, ..Panicky::default() });
    let held = [hold(&core, "a").await, hold(&core, "b").await];
    sleep(LEASE * 3).await;
    for record in &held {
        assert_eq!(core.shared.stand(record), HoldState::Safe);
    }
    let errors = errors.0.lock().unwrap().clone();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors.iter().all(|line| line.contains("watchdog") && line.contains("the server's own panic")));
    let renewals = server.renewals.load(Ordering::SeqCst);
    assert!((4..40).contains(&renewals), "renewed {renewals} times in three leases");
    for record in &held {
        assert_eq!(crate::hold::release(&core.shared, record).await.unwrap(), Outcome::Released);
    }
}

#[tokio::test]
async fn case_r8_a_panic_in_a_background_release_stops_no_other_and_no_close() {
    let errors = Errors::default();
    let _kept = tracing::subscriber::set_default(errors.clone());
    let (core, server) = start(Panicky { bad_passes: 1, ..Panicky::default() });
    let mut held = Vec::new();
    for n in 0..200 {
        held.push(hold(&core, &format!("a{n}")).await);
    }
    for record in &held {
        core.shared.release_later(record);
    }
    // More than can be under way at once: some still waited for their turn when the panic came.
    timeout(Duration::from_secs(10), core.shared.janitor.idle()).await.expect("nothing is left to do");
    assert_eq!(server.passes.load(Ordering::SeqCst), 200);
    let errors = errors.0.lock().unwrap().clone();
    assert!(matches!(&errors[..], [line] if line.contains("janitor")), "{errors:?}");
}
