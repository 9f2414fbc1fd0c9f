//! The push connection: one subscription, kept standing by one task, which is also the only one that
//! subscribes. fred's own keeper of subscriptions is not used: it shifts replies.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::{EventInterface, PubsubInterface};
use fred::types::{Message, RespVersion, Value};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use super::Shared;
use super::connection::{self, Connection};
use super::fault::fault;
use super::message;
use crate::server::{Fault, Push, Why};

/// Messages that wait for the dispatcher. fred reads a whole segment before it yields, so a burst
/// must fit; the channel costs some 2 MB.
const BUFFER: usize = 4096;

/// What the push task is asked for. Each holds one wish at most: many calls make one repair.
#[derive(Default)]
pub(super) struct Signals {
    /// Somebody wants to listen.
    pub(super) want: Notify,
    /// The server sees no subscriber of ours: build anew, beside the command connection of today.
    pub(super) repair: Notify,
    /// The command connection is new: confirm, then tell that messages may be lost.
    pub(super) recheck: Notify,
}

#[derive(Debug, Clone)]
pub(super) enum Standing {
    Down,
    Up,
    /// The last attempt failed; each attempt is a change that listeners see.
    Failed(Fault),
}

/// Waits until the channel stands, or an attempt to open it has failed. Callers share the attempt.
pub(super) async fn listen(shared: &Shared, within: Duration) -> Result<(), Fault> {
    let mut standing = shared.standing.clone();
    if matches!(*standing.borrow_and_update(), Standing::Up) {
        return Ok(());
    }
    shared.signals.want.notify_one();
    let outcome = timeout(within, async {
        loop {
            if standing.changed().await.is_err() {
                return Err(Fault::closed());
            }
            match &*standing.borrow_and_update() {
                Standing::Up => return Ok(()),
                Standing::Failed(fault) => return Err(fault.clone()),
                Standing::Down => {}
            }
        }
    });
    outcome
        .await
        .unwrap_or_else(|_| Err(Fault::new(Why::TimedOut, "the push channel is not open yet", false)))
}

/// The push task: spawned by `connect`, ends when the server value is closed or dropped, and with it
/// the connection and the stream of pushes. Does nothing until somebody listens.
pub(super) struct Keeper {
    pub(super) shared: Arc<Shared>,
    pub(super) standing: watch::Sender<Standing>,
    pub(super) pushes: mpsc::UnboundedSender<Push>,
}

impl Keeper {
    pub(super) async fn run(self) {
        tokio::select! {
            () = self.shared.closed.cancelled() => {}
            () = self.keep() => {}
        }
    }

    async fn keep(&self) {
        let mut live = self.first().await;
        loop {
            self.standing.send_replace(Standing::Up);
            let why = self.attend(&mut live).await;
            self.standing.send_replace(Standing::Down);
            tracing::debug!(server = self.shared.address(), why, "the push connection is built anew");
            // The old one first: the server must not count it while the new one is on its way.
            drop(live);
            live = self.again().await;
            // What was asked for meanwhile has just been done.
            tokio::select! {
                biased;
                () = self.shared.signals.repair.notified() => {}
                () = std::future::ready(()) => {}
            }
            self.tell(Push::Missed);
        }
    }

    /// The first connection: tried once for each wish, since whoever listens is told why it failed.
    async fn first(&self) -> Live {
        let signals = &self.shared.signals;
        loop {
            tokio::select! {
                () = signals.want.notified() => {}
                () = signals.repair.notified() => {}
                () = signals.recheck.notified() => {
                    self.tell(Push::Missed);
                    continue;
                }
            }
            match open(&self.shared).await {
                Ok(live) => return live,
                Err(fault) => self.failed(fault),
            }
        }
    }

    /// Every later one: somebody waits for pushes, so it is tried until it stands.
    async fn again(&self) -> Live {
        let tuning = &self.shared.tuning;
        let mut delay = tuning.retry_delay;
        loop {
            // Before the first attempt too: whoever asks for a repair at once again gets no storm.
            sleep(delay).await;
            delay = (delay * 2).min(tuning.retry_cap);
            match open(&self.shared).await {
                Ok(live) => return live,
                Err(fault) => self.failed(fault),
            }
        }
    }

    fn failed(&self, fault: Fault) {
        tracing::debug!(server = self.shared.address(), %fault, "no push connection");
        self.standing.send_replace(Standing::Failed(fault));
    }

    fn tell(&self, push: Push) {
        // Nobody receives any more while the client is being dropped.
        let _ = self.pushes.send(push);
    }

    /// Hands on what arrives, until the connection has to be built anew; says why.
    async fn attend(&self, live: &mut Live) -> &'static str {
        let shared = &*self.shared;
        let every = shared.tuning.probe_every;
        let mut probe = interval_at(Instant::now() + every, every);
        probe.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A probe beside the dispatch, not in it: a slow answer must not hold up grants.
        let mut probing: Option<Probe> = None;
        loop {
            let moved = tokio::select! {
                message = live.messages.recv() => match message {
                    Ok(message) => {
                        self.dispatch(&message);
                        continue;
                    }
                    Err(RecvError::Lagged(lost)) => {
                        tracing::debug!(server = shared.address(), lost, "pushes overran their buffer");
                        self.tell(Push::Missed);
                        continue;
                    }
                    Err(RecvError::Closed) => return "its stream ended",
                },
                event = live.connection.reconnects.recv() => match event {
                    Err(RecvError::Closed) => return "its events ended",
                    _ => true,
                },
                _ = &mut live.connection.task => return "its task ended",
                () = shared.signals.repair.notified() => return "the server sees no subscriber",
                () = shared.signals.recheck.notified() => false,
                _ = probe.tick(), if probing.is_none() => {
                    probing = Some(ping(&live.connection.client, shared.tuning.command_timeout));
                    continue;
                }
                answered = answer(&mut probing) => {
                    probing = None;
                    if answered {
                        continue;
                    }
                    return "it is silent";
                }
            };
            if moved {
                self.standing.send_replace(Standing::Down);
                connection::name(&live.connection.client, &shared.name, shared.tuning.command_timeout).await;
            }
            if confirm(shared, &live.connection.client).await.is_err() {
                return "it was not confirmed";
            }
            self.standing.send_replace(Standing::Up);
            self.tell(Push::Missed);
        }
    }

    fn dispatch(&self, message: &Message) {
        let shared = &*self.shared;
        let text = match &message.value {
            Value::String(text) => Some(&**text),
            Value::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        };
        if let Some(push) = text.and_then(|text| message::push(text, shared.sender.client)) {
            tracing::trace!(?push, "push");
            self.tell(push);
        } else {
            // Whoever may publish to the channel can say anything.
            tracing::debug!(server = shared.address(), "a push that is not understood is dropped");
        }
    }
}

struct Live {
    connection: Connection,
    messages: Receiver<Message>,
}

async fn open(shared: &Shared) -> Result<Live, Fault> {
    let client = connection::client(&shared.endpoint, &shared.tuning, RespVersion::RESP3, BUFFER)?;
    let messages = client.message_rx();
    let connection = Connection::open(client, shared.tuning.connect_timeout, &shared.prefix).await?;
    connection::name(&connection.client, &shared.name, shared.tuning.command_timeout).await;
    confirm(shared, &connection.client).await?;
    tracing::debug!(server = shared.address(), "the push connection stands");
    Ok(Live { connection, messages })
}

/// Subscribes, and returns when the server has done it. fred answers as soon as the command is
/// written, so a PING behind it is the barrier. A denial of SUBSCRIBE comes as the PING's reply, and
/// leaves one reply too many on the connection: an error here ends the connection.
async fn confirm(shared: &Shared, client: &Client) -> Result<(), Fault> {
    let subscribed = client.subscribe(shared.sender.channel.as_str()).await;
    subscribed.map_err(|error| fault(&error, &shared.prefix))?;
    let pong = connection::send(client, "PING", Vec::new(), shared.tuning.command_timeout).await;
    pong.map(drop).map_err(|error| fault(&error, &shared.prefix))
}

type Probe = Pin<Box<dyn Future<Output = bool> + Send>>;

fn ping(client: &Client, within: Duration) -> Probe {
    let client = client.clone();
    Box::pin(async move { connection::send(&client, "PING", Vec::new(), within).await.is_ok() })
}

async fn answer(probing: &mut Option<Probe>) -> bool {
    match probing {
        Some(probe) => probe.await,
        None => pending().await,
    }
}
