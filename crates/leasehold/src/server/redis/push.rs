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
use tokio::sync::{Notify, watch};
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

/// Spawned by `connect`, ends when the server value is closed or dropped, and the connection with it.
/// Does nothing until somebody listens.
pub(super) async fn run(shared: Arc<Shared>, standing: watch::Sender<Standing>) {
    tokio::select! {
        () = shared.closed.cancelled() => {}
        () = keep(&shared, &standing) => {}
    }
}

async fn keep(shared: &Shared, standing: &watch::Sender<Standing>) {
    let mut live = first(shared, standing).await;
    loop {
        standing.send_replace(Standing::Up);
        let why = attend(shared, standing, &mut live).await;
        standing.send_replace(Standing::Down);
        tracing::debug!(server = shared.address(), why, "the push connection is built anew");
        // The old one first: the server must not count it while the new one is on its way.
        drop(live);
        live = again(shared, standing).await;
        // What was asked for meanwhile has just been done.
        tokio::select! {
            biased;
            () = shared.signals.repair.notified() => {}
            () = std::future::ready(()) => {}
        }
        shared.tell(Push::Missed);
    }
}

/// The first connection: tried once for each wish, since whoever listens is told why it failed.
async fn first(shared: &Shared, standing: &watch::Sender<Standing>) -> Live {
    loop {
        tokio::select! {
            () = shared.signals.want.notified() => {}
            () = shared.signals.repair.notified() => {}
            () = shared.signals.recheck.notified() => {
                shared.tell(Push::Missed);
                continue;
            }
        }
        match open(shared).await {
            Ok(live) => return live,
            Err(fault) => failed(shared, standing, fault),
        }
    }
}

/// Every later one: somebody waits for pushes, so it is tried until it stands.
async fn again(shared: &Shared, standing: &watch::Sender<Standing>) -> Live {
    let mut delay = shared.tuning.retry_delay;
    loop {
        // Before the first attempt too: whoever asks for a repair at once again gets no storm.
        sleep(delay).await;
        delay = (delay * 2).min(shared.tuning.retry_cap);
        match open(shared).await {
            Ok(live) => return live,
            Err(fault) => failed(shared, standing, fault),
        }
    }
}

fn failed(shared: &Shared, standing: &watch::Sender<Standing>, fault: Fault) {
    tracing::debug!(server = shared.address(), %fault, "no push connection");
    standing.send_replace(Standing::Failed(fault));
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

/// Hands on what arrives, until the connection has to be built anew; says why.
async fn attend(shared: &Shared, standing: &watch::Sender<Standing>, live: &mut Live) -> &'static str {
    let every = shared.tuning.probe_every;
    let mut probe = interval_at(Instant::now() + every, every);
    probe.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // A probe beside the dispatch, not in it: a slow answer must not hold up grants.
    let mut probing: Option<Probe> = None;
    loop {
        let moved = tokio::select! {
            message = live.messages.recv() => match message {
                Ok(message) => {
                    dispatch(shared, &message);
                    continue;
                }
                Err(RecvError::Lagged(lost)) => {
                    tracing::debug!(server = shared.address(), lost, "pushes overran their buffer");
                    shared.tell(Push::Missed);
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
            standing.send_replace(Standing::Down);
            connection::name(&live.connection.client, &shared.name, shared.tuning.command_timeout).await;
        }
        if confirm(shared, &live.connection.client).await.is_err() {
            return "it was not confirmed";
        }
        standing.send_replace(Standing::Up);
        shared.tell(Push::Missed);
    }
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

fn dispatch(shared: &Shared, message: &Message) {
    let text = match &message.value {
        Value::String(text) => Some(&**text),
        Value::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    };
    if let Some(push) = text.and_then(|text| message::push(text, shared.sender.client)) {
        tracing::trace!(?push, "push");
        shared.tell(push);
    } else {
        // Whoever may publish to the channel can say anything.
        tracing::debug!(server = shared.address(), "a push that is not understood is dropped");
    }
}
