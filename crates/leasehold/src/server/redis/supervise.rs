//! The task that keeps the command connection standing.

use std::sync::Arc;

use fred::interfaces::ClientLike;
use fred::types::ClientState;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::sleep;

use super::Shared;
use super::connection::{self, Connection, DRAIN};

/// Spawned by `connect`, ends when the server value is closed or dropped. fred reconnects by itself;
/// this task does what fred does not: it notices a silent server, starts fred's task again when that
/// has ended, names each new connection, and has the push connection checked after it.
pub(super) async fn run(shared: Arc<Shared>, mut connection: Connection) {
    let closed = shared.closed.clone();
    loop {
        let ended = tokio::select! {
            () = closed.cancelled() => break,
            () = shared.stuck.notified() => {
                tokio::select! {
                    () = closed.cancelled() => break,
                    () = replace(&shared, &connection) => {}
                }
                // If it worked, an event says so.
                continue;
            }
            event = connection.reconnects.recv() => matches!(event, Err(RecvError::Closed)),
            ended = &mut connection.task => {
                tracing::debug!(server = shared.address(), ?ended, "the command connection's task ended");
                true
            }
        };
        if ended {
            let reopened = tokio::select! {
                () = closed.cancelled() => None,
                reopened = reopen(&shared) => Some(reopened),
            };
            let Some(reopened) = reopened else { return };
            connection = reopened;
        }
        tokio::select! {
            () = closed.cancelled() => break,
            () = greet(&shared) => {}
        }
    }
    connection.close(DRAIN).await;
}

/// A new command connection: the push connection may be on another server now, and what was pushed
/// meanwhile is lost.
async fn greet(shared: &Shared) {
    shared.silence.end();
    tracing::debug!(server = shared.address(), "the command connection is new");
    shared.signals.recheck.notify_one();
    connection::name(&shared.client, &shared.name, shared.tuning.command_timeout).await;
}

async fn replace(shared: &Shared, connection: &Connection) {
    // While fred is connecting, its calls time out too: it needs no push.
    if connection.client.state() != ClientState::Connected {
        return;
    }
    tracing::debug!(server = shared.address(), "no reply to several calls: connecting again");
    shared.silence.end();
    if let Err(error) = connection.client.force_reconnection().await {
        tracing::debug!(%error, "could not connect again");
    }
}

async fn reopen(shared: &Shared) -> Connection {
    let mut delay = shared.tuning.retry_delay;
    loop {
        sleep(delay).await;
        delay = (delay * 2).min(shared.tuning.retry_cap);
        match Connection::open(shared.client.clone(), shared.tuning.connect_timeout, &shared.prefix).await {
            Ok(connection) => return connection,
            Err(fault) => tracing::debug!(server = shared.address(), %fault, "could not connect"),
        }
    }
}
