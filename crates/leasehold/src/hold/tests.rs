//! A server that a test plays, one command after the other.

mod schedules;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{Core, Record, Settings, Spec, Tried, Waited, attempt, close, release, wait};
use crate::backoff::Backoff;
use crate::error::Error;
use crate::key::Keys;
use crate::lease::Kind;
use crate::outcome::{LostReason, Outcome};
use crate::owner::OwnerId;
use crate::server::{
    Call, Claim, Contention, Fault, Found, Grant, Holder, Looked, Mine, Mode, Pass, Passed, Push, Remaining,
    Renew, Reply, Server, ServerTime, Subscribers, Take, Taken, Target, Ticket, Why,
};

const LEASE: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(300);

/// A command that was sent and is not answered.
#[derive(Debug)]
enum Sent {
    Take(OwnerId, Mode, oneshot::Sender<Result<Reply<Taken>, Fault>>),
    Claim(OwnerId, oneshot::Sender<Result<Reply<Mine>, Fault>>),
    Pass(OwnerId, oneshot::Sender<Result<Reply<Passed>, Fault>>),
    Listen(oneshot::Sender<Result<(), Fault>>),
}

struct Fake {
    sent: mpsc::UnboundedSender<Sent>,
    /// So many of the next `take`s panic.
    bad: AtomicU32,
}

fn fault(why: Why) -> Fault {
    Fault { why, text: "a fault of the test".to_owned(), may_have_run: true }
}

impl Fake {
    fn ask<'a, T: Send + 'static>(
        &'a self,
        within: Duration,
        sent: impl FnOnce(oneshot::Sender<Result<T, Fault>>) -> Sent + Send + 'a,
    ) -> Call<'a, T> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let _ = self.sent.send(sent(answer));
            match tokio::time::timeout(within, answered).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Err(fault(Why::Unavailable)),
                Err(_) => Err(fault(Why::TimedOut)),
            }
        })
    }
}

impl Server for Fake {
    fn take<'a>(&'a self, take: Take<'a>, within: Duration) -> Call<'a, Reply<Taken>> {
        let bad = self.bad.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        assert!(bad.is_err(), "a bad take");
        let (owner, mode) = (take.owner, take.mode);
        self.ask(within, move |answer| Sent::Take(owner, mode, answer))
    }

    fn claim<'a>(&'a self, claim: Claim<'a>, within: Duration) -> Call<'a, Reply<Mine>> {
        let owner = claim.owner;
        self.ask(within, move |answer| Sent::Claim(owner, answer))
    }

    fn renew<'a>(&'a self, batch: &'a [Renew], _: Duration) -> Call<'a, Vec<Result<Mine, Fault>>> {
        let yes = |one: &Renew| Ok(Mine::Yes { token: 7, remaining: one.lease });
        // As where a permission is taken away: the server looks at the keys, and runs nothing.
        let denied = batch.iter().any(|one| one.keys.name() == "denied");
        let answer = if denied { Err(fault(Why::Denied)) } else { Ok(batch.iter().map(yes).collect()) };
        Box::pin(std::future::ready(answer))
    }

    fn pass<'a>(&'a self, pass: Pass<'a>, within: Duration) -> Call<'a, Reply<Passed>> {
        let Target::Own(owner) = pass.target else { panic!("never by force here") };
        self.ask(within, move |answer| Sent::Pass(owner, answer))
    }

    fn look<'a>(&'a self, _: &'a Keys, _: Duration) -> Call<'a, Looked> {
        Box::pin(std::future::ready(Err(fault(Why::Protocol))))
    }

    fn listen(&self, within: Duration) -> Call<'_, ()> {
        self.ask(within, Sent::Listen)
    }

    fn repair(&self) {}

    fn close(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }

    fn address(&self) -> &'static str {
        "a test"
    }
}

/// The server's side of a client.
struct Play {
    core: Arc<Core>,
    fake: Arc<Fake>,
    sent: Mutex<mpsc::UnboundedReceiver<Sent>>,
    pushes: mpsc::UnboundedSender<Push>,
}

impl Play {
    fn new(command_timeout: Duration) -> Self {
        let (sent, received) = mpsc::unbounded_channel();
        let (pushes, pushed) = mpsc::unbounded_channel();
        let fake = Arc::new(Fake { sent, bad: AtomicU32::new(0) });
        let backoff = Backoff {
            first: Duration::from_millis(10),
            cap: Duration::from_millis(50),
            jitter: Duration::ZERO,
        };
        let settings = Settings { command_timeout, backoff, margin: Duration::from_millis(50) };
        let core = Core::start(fake.clone(), pushed, Uuid::from_u128(9), settings);
        Self { core, fake, sent: Mutex::new(received), pushes }
    }

    /// The next command.
    async fn next(&self) -> Sent {
        let mut sent = self.sent.lock().await;
        let next = tokio::time::timeout(Duration::from_secs(5), sent.recv());
        next.await.expect("a command within 5 s").unwrap()
    }

    /// No command for a while.
    async fn silence(&self) {
        let mut sent = self.sent.lock().await;
        if let Ok(sent) = tokio::time::timeout(SHORT, sent.recv()).await {
            panic!("{sent:?}");
        }
    }

    fn waiter(&self, name: &str, lease: Duration) -> JoinHandle<Result<Arc<Record>, Error>> {
        let (core, spec) = (self.core.clone(), spec(name, lease));
        tokio::spawn(async move {
            match wait(&core.shared, &spec, None).await? {
                Waited::Held(record) => Ok(record),
                Waited::Busy(busy) => panic!("{busy}"),
            }
        })
    }

    /// A waiter whose first `take` was answered with this ticket; `open`: the push channel stands.
    async fn queued(
        &self,
        ticket: u64,
        remaining: Duration,
        open: bool,
    ) -> (OwnerId, JoinHandle<Result<Arc<Record>, Error>>) {
        let task = self.waiter("a", LEASE);
        if !open {
            self.no().await;
            let Sent::Listen(answer) = self.next().await else { panic!("no listen") };
            answer.send(Ok(())).unwrap();
        }
        let (owner, answer) = self.take().await;
        answer.send(Ok(in_line(ticket, remaining, Subscribers::Count(1)))).unwrap();
        (owner, task)
    }

    async fn take(&self) -> (OwnerId, oneshot::Sender<Result<Reply<Taken>, Fault>>) {
        match self.next().await {
            Sent::Take(owner, _, answer) => (owner, answer),
            other => panic!("{other:?}"),
        }
    }

    /// Answers a try: busy.
    async fn no(&self) {
        let Sent::Take(_, Mode::Try, answer) = self.next().await else { panic!("no try") };
        answer.send(Ok(reply(Taken::Busy(seen(LEASE))))).unwrap();
    }

    async fn hold(&self, name: &str, lease: Duration) -> Arc<Record> {
        let (core, spec) = (self.core.clone(), spec(name, lease));
        let task = tokio::spawn(async move { attempt(&core.shared, &spec).await });
        let (_, answer) = self.take().await;
        let body = Taken::Held { token: 7, remaining: lease, unclaimed: false };
        answer.send(Ok(reply(body))).unwrap();
        let Ok(Tried::Held(record)) = task.await.unwrap() else { panic!("not held") };
        record
    }

    fn grant(&self, owner: OwnerId, token: u64, remaining: Duration) {
        self.pushes.send(Push::Grant(Grant { lock: "a".to_owned(), owner, token, remaining })).unwrap();
    }
}

fn spec(name: &str, lease: Duration) -> Arc<Spec> {
    let keys = Keys::new("", name).unwrap();
    Arc::new(Spec { keys, lease, kind: Kind::Renewed, max_hold: None, who: "t".to_owned() })
}

fn reply<T>(body: T) -> Reply<T> {
    Reply { at: ServerTime(1), grant: None, body }
}

fn held() -> Reply<Taken> {
    reply(Taken::Held { token: 7, remaining: LEASE, unclaimed: false })
}

/// Somebody else has it.
fn seen(remaining: Duration) -> Contention {
    let owner = format!("{}:1", Uuid::from_u128(1));
    let holder = Holder::Ours { owner, token: 3, since: None, lease: None, who: "o".to_owned() };
    Contention { remaining: Remaining::For(remaining), holder: Some(holder) }
}

fn in_line(ticket: u64, remaining: Duration, subscribers: Subscribers) -> Reply<Taken> {
    let seen = seen(remaining);
    reply(Taken::Queued { ticket: Ticket(ticket), place: 0, missing: false, subscribers, seen })
}
