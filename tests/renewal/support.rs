//! What these modules share.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use leasehold::{Client, ClientBuilder, Guard, LostReason};
use leasehold_testkit::{Admin, Relay, Server, patience, stats};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// The lease of most tests.
pub(crate) const LEASE: Duration = Duration::from_millis(1_500);

/// Far from what anything takes here, and below the default lease of 30 s: what happens within it was
/// done by a command and not by an expiry.
pub(crate) const SOON: Duration = Duration::from_secs(15);

/// Looks again and again while `span` lasts.
pub(crate) async fn throughout(span: Duration, mut look: impl AsyncFnMut()) {
    let began = Instant::now();
    while began.elapsed() < span {
        look().await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sees to it that no script runs while `span` lasts: nothing is renewed, retried or polled.
pub(crate) async fn quiet(admin: &mut Admin, span: Duration) {
    let before = stats(admin).await.scripts();
    throughout(span, async || assert_eq!(stats(admin).await.scripts(), before, "a command was sent")).await;
}

/// The reason of the loss that is bound to come.
pub(crate) async fn lost(guard: &Guard) -> LostReason {
    let lost = tokio::time::timeout(patience(SOON * 2), guard.lost()).await;
    lost.unwrap_or_else(|_| panic!("a loss was never told: {guard:?}"))
}

/// A client of `server` through a relay.
pub(crate) fn options_through(server: &Server, relay: &Relay) -> ClientBuilder {
    Client::builder(&relay.url()).prefix(server.prefix())
}

pub(crate) async fn exists(admin: &mut Admin, key: &str) -> bool {
    admin.call(&["EXISTS", key]).await.int() == 1
}

pub(crate) async fn pttl(admin: &mut Admin, key: &str) -> Duration {
    let left = admin.call(&["PTTL", key]).await.int();
    Duration::from_millis(u64::try_from(left).unwrap_or(0))
}

/// Tasks of this runtime.
pub(crate) fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Numbers that look random and are the same in each run.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From zero up to `end`, exclusive.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Gives `work` so many turns of the runtime, then drops it if it is not done.
pub(crate) async fn turns<T>(count: u64, work: impl Future<Output = T>) -> Option<T> {
    let over = async {
        for _ in 0..count {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        done = work => Some(done),
        () = over => None,
    }
}

/// What this thread's code has logged at info and above, since the log was kept. With a runtime of one
/// thread, that is all of the client's tasks too.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<(Level, String)>>>);

thread_local! {
    static LOG: RefCell<Option<Log>> = const { RefCell::new(None) };
}

impl Log {
    pub(crate) fn keep() -> Self {
        // One subscriber for all threads: tracing may take the word of a thread that has none for all
        // of them.
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            tracing::subscriber::set_global_default(ByThread).unwrap();
            tracing::callsite::rebuild_interest_cache();
        });
        let log = Self::default();
        LOG.set(Some(log.clone()));
        log
    }

    /// The lines that contain `text`.
    pub(crate) fn with(&self, text: &str) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|(_, line)| line.contains(text)).map(|(_, line)| line.clone()).collect()
    }

    pub(crate) fn errors(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|(level, _)| *level == Level::ERROR).map(|(_, line)| line.clone()).collect()
    }
}

struct ByThread;

impl Subscriber for ByThread {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if *metadata.level() <= Level::INFO { Interest::sometimes() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && LOG.with_borrow(Option::is_some)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LOG.with_borrow(|log| {
            if let Some(log) = log {
                log.0.lock().unwrap().push((*event.metadata().level(), line.0));
            }
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}
