//! Redis and Valkey behind the seam, through fred: the only folder that names it.
//!
//! Two connections, each with one task of ours ([`supervise`], [`push`]) and one of fred's. The tasks
//! hold [`Shared`] and never the server value; that value's end, by `close` or by drop, ends them.
//!
//! Order: fred queues a `custom` call at its first poll, in one queue, and writes that queue to one
//! connection, so calls are executed in the order of their first poll. One case steps back: a call
//! that is answered NOSCRIPT is sent again with its text, behind whatever was sent meanwhile. It does
//! so only while its future lives, and a live future means that its owner has nothing else under way
//! but maybe a release behind a renewal, which may run in either order. A `pass` behind a *dropped*
//! `take` is safe: nobody is left to send the take again, and if the pass is the one that steps back,
//! it still comes last.
//!
//! Calls are not bounded in number here: a semaphore that is full would answer in another order than
//! that of the first polls, unless each call queued for a permit first. The callers' own limits hold.

pub(crate) mod acl;
mod connection;
pub(crate) mod endpoint;
mod fault;
mod message;
mod push;
mod reply;
mod request;
mod script;
mod silence;
mod supervise;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;
pub(crate) mod tuning;

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::error::ErrorKind;
use fred::types::{RespVersion, Value};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::connection::Connection;
use self::endpoint::Endpoint;
use self::push::{Keeper, Signals, Standing};
use self::request::Sender;
use self::script::{SCRIPTS, Script};
use self::silence::Silence;
use self::tuning::{Tuning, millis};
use super::{Call, Claim, Fault, Looked, Mine, Pass, Passed, Push, Renew, Reply, Server, Take, Taken, Why};
use crate::key::Keys;

/// Connects for commands, once: an error says why at once, and only a connection that stood is kept
/// standing. `channel` is where scripts push to; it is opened at the first `listen`.
pub(crate) async fn connect(
    endpoint: Endpoint,
    tuning: Tuning,
    client: Uuid,
    channel: String,
) -> Result<(Arc<dyn Server>, mpsc::UnboundedReceiver<Push>), Fault> {
    let commands = connection::client(&endpoint, &tuning, RespVersion::RESP2, 32)?;
    let prefix = channel.strip_suffix(&format!("push:{client}")).unwrap_or("").to_owned();
    let connection = Connection::open(commands.clone(), tuning.connect_timeout, &prefix).await?;
    connection::check_kind(&commands, tuning.command_timeout).await?;

    let (pushes, received) = mpsc::unbounded_channel();
    let (standing, stands) = watch::channel(Standing::Down);
    let shared = Arc::new(Shared {
        client: commands,
        sender: Sender { client, channel, fence_ttl: millis(tuning.fence_ttl).to_string() },
        prefix,
        name: connection_name(&tuning, client),
        endpoint,
        closed: CancellationToken::new(),
        silence: Silence::default(),
        stuck: Notify::new(),
        signals: Signals::default(),
        standing: stands,
        tuning,
    });
    connection::name(&shared.client, &shared.name, shared.tuning.command_timeout).await;
    tracing::debug!(server = shared.address(), "connected");
    let keeper = Keeper { shared: Arc::clone(&shared), standing, pushes };
    let tasks = [tokio::spawn(supervise::run(Arc::clone(&shared), connection)), tokio::spawn(keeper.run())];
    Ok((Arc::new(RedisServer { shared, tasks: Mutex::new(tasks.into()) }), received))
}

struct RedisServer {
    shared: Arc<Shared>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.shared.closed.cancel();
    }
}

/// What the server value and its two tasks have in common.
struct Shared {
    /// For commands. Stays the same through every new connection.
    client: Client,
    sender: Sender,
    prefix: String,
    /// In `CLIENT LIST`.
    name: String,
    endpoint: Endpoint,
    tuning: Tuning,
    /// Ends every task; calls answer [`Why::Closed`] from then on.
    closed: CancellationToken,
    silence: Silence,
    /// There were too many of them.
    stuck: Notify,
    signals: Signals,
    standing: watch::Receiver<Standing>,
}

impl Shared {
    fn address(&self) -> &str {
        &self.endpoint.address
    }

    /// How this client can be told: by a counted subscriber, or not at all where subscribing is
    /// denied, so that it has to look (`p`).
    fn reach(&self) -> &'static str {
        match &*self.standing.borrow() {
            Standing::Failed(fault) if fault.why == Why::Denied => "p",
            _ => "c",
        }
    }

    /// Sends one script call. `words`: number of keys, keys, arguments; asked for a second time only
    /// if the server does not know the script, which is certain not to have run then.
    async fn call(
        &self,
        script: &Script,
        within: Duration,
        words: impl Fn() -> Vec<Value>,
    ) -> Result<Value, Fault> {
        if self.closed.is_cancelled() {
            return Err(Fault::closed());
        }
        let started = Instant::now();
        let mut answer = self.send("EVALSHA", &script.sha, within, words()).await;
        if answer.as_ref().is_err_and(fault::is_noscript) {
            tracing::debug!(server = self.address(), script = script.name, "sent with its text");
            let left = within.saturating_sub(started.elapsed());
            answer = self.send("EVAL", &script.text, left, words()).await;
        }
        match &answer {
            Err(error) if *error.kind() == ErrorKind::Timeout => {
                if self.silence.note(started, Instant::now(), self.tuning.command_timeout) {
                    self.stuck.notify_one();
                }
            }
            _ => self.silence.end(),
        }
        tracing::trace!(script = script.name, took = ?started.elapsed(), ok = answer.is_ok(), "script");
        answer.map_err(|error| {
            let fault = fault::fault(&error, &self.prefix);
            if self.closed.is_cancelled() { Fault { why: Why::Closed, ..fault } } else { fault }
        })
    }

    async fn send(
        &self,
        command: &'static str,
        script: &str,
        within: Duration,
        mut words: Vec<Value>,
    ) -> Result<Value, fred::error::Error> {
        words.insert(0, script.into());
        connection::send(&self.client, command, words, within).await
    }
}

impl Server for RedisServer {
    fn take<'a>(&'a self, take: Take<'a>, within: Duration) -> Call<'a, Reply<Taken>> {
        let shared = &*self.shared;
        Box::pin(async move {
            let value =
                shared.call(&SCRIPTS.take, within, || shared.sender.take(&take, shared.reach())).await?;
            reply::taken(value, take.keys, take.owner)
        })
    }

    fn claim<'a>(&'a self, claim: Claim<'a>, within: Duration) -> Call<'a, Reply<Mine>> {
        Box::pin(async move {
            let value = self.shared.call(&SCRIPTS.claim, within, || request::claim(&claim)).await?;
            reply::claimed(value)
        })
    }

    fn renew<'a>(&'a self, batch: &'a [Renew], within: Duration) -> Call<'a, Vec<Result<Mine, Fault>>> {
        Box::pin(async move {
            if batch.is_empty() {
                return Ok(Vec::new());
            }
            let value = self.shared.call(&SCRIPTS.renew, within, || request::renew(batch)).await?;
            reply::renewed(value, batch.len(), &self.shared.prefix)
        })
    }

    fn pass<'a>(&'a self, pass: Pass<'a>, within: Duration) -> Call<'a, Reply<Passed>> {
        let shared = &*self.shared;
        Box::pin(async move {
            let value = shared.call(&SCRIPTS.pass, within, || shared.sender.pass(&pass)).await?;
            reply::passed(value, pass.keys)
        })
    }

    fn look<'a>(&'a self, keys: &'a Keys, within: Duration) -> Call<'a, Looked> {
        Box::pin(async move {
            // It reads: whatever became of it, nothing has changed.
            let unchanged = |fault| Fault { may_have_run: false, ..fault };
            let value = self.shared.call(&SCRIPTS.look, within, || request::look(keys)).await;
            value.and_then(reply::looked).map_err(unchanged)
        })
    }

    fn listen(&self, within: Duration) -> Call<'_, ()> {
        Box::pin(async move {
            if self.shared.closed.is_cancelled() {
                return Err(Fault::closed());
            }
            push::listen(&self.shared, within).await
        })
    }

    fn repair(&self) {
        self.shared.signals.repair.notify_one();
    }

    fn close(&self, within: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            self.shared.closed.cancel();
            let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
            let end = tokio::time::Instant::now() + within;
            for mut task in tasks {
                // A task that is cut drops its connection, which ends fred's task too.
                if tokio::time::timeout_at(end, &mut task).await.is_err() {
                    task.abort();
                }
            }
        })
    }

    fn address(&self) -> &str {
        self.shared.address()
    }
}

/// Spaces and control characters are refused by the server, and a label may have them.
fn connection_name(tuning: &Tuning, client: Uuid) -> String {
    let label = tuning.label.clone().unwrap_or_else(|| client.simple().to_string().chars().take(8).collect());
    let plain: String = label.chars().map(|c| if c.is_ascii_graphic() { c } else { '-' }).collect();
    format!("leasehold-{plain}")
}
