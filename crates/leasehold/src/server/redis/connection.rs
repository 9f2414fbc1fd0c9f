//! One connection to the server: how it is set up, opened, named and closed. There are two of them,
//! for commands and for pushes, and never both on one: fred mixes up their replies.

use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, EventInterface};
use fred::types::config::{
    Config, ConnectionConfig, Options, PerformanceConfig, ReconnectPolicy, Server, TcpConfig,
};
use fred::types::{Builder, ClusterHash, ConnectHandle, CustomCommand, RespVersion, Value};
use tokio::sync::broadcast::Receiver;

use super::endpoint::Endpoint;
use super::fault::fault;
use super::tuning::{Tuning, millis};
use crate::server::{Fault, Why};

/// How long a closing connection may drain before it is cut.
pub(super) const DRAIN: Duration = Duration::from_millis(500);

/// A connected client and the task that drives it. The task ends with this value: fred itself
/// leaves task and socket behind when its handles are dropped.
pub(super) struct Connection {
    pub(super) client: Client,
    /// Ends when fred gives up, and must not be polled after that.
    pub(super) task: ConnectHandle,
    /// One event for each new connection behind the first.
    pub(super) reconnects: Receiver<Server>,
}

impl Connection {
    /// Connects and logs in, once. `Client` may be one whose last task has ended.
    pub(super) async fn open(client: Client, within: Duration, prefix: &str) -> Result<Self, Fault> {
        let reconnects = client.reconnect_rx();
        let task = client.connect();
        let mut connection = Self { client, task, reconnects };
        // Not init(): dropped half-way it leaves its task behind.
        let ended = tokio::select! {
            connected = connection.reconnects.recv() => match connected {
                Ok(_) => return Ok(connection),
                Err(_) => None,
            },
            ended = &mut connection.task => ended.ok().and_then(Result::err),
            () = tokio::time::sleep(within) => Some(Error::new(ErrorKind::Timeout, "connect")),
        };
        let error = ended.unwrap_or_else(|| Error::new(ErrorKind::Canceled, "the connection's task ended"));
        let mut fault = fault(&error, prefix);
        fault.may_have_run = false;
        if fault.why == Why::Unavailable && *error.kind() == ErrorKind::IO {
            fault.text = format!("cannot connect: {}", error.details());
        }
        Err(fault)
    }

    /// Lets what is on its way finish, for a while.
    pub(super) async fn close(self, within: Duration) {
        let quit = tokio::time::timeout(within, self.client.quit()).await;
        if !matches!(quit, Ok(Ok(()))) {
            tracing::debug!("the connection did not drain in time and is cut");
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A client that is not connected yet. `capacity`: of the channel that carries pushes and events.
pub(super) fn client(
    endpoint: &Endpoint,
    tuning: &Tuning,
    version: RespVersion,
    capacity: usize,
) -> Result<Client, Fault> {
    let mut config = Config {
        version,
        // Our own supervision retries the first attempt, and sees why it failed.
        fail_fast: true,
        ..endpoint.config().map_err(|bad| Fault::new(Why::Unavailable, bad.to_string(), false))?
    };
    if config.version == RespVersion::RESP3 {
        config.username = config.username.map(inline_word);
        config.password = config.password.map(inline_word);
    }
    let small = |duration| u32::try_from(millis(duration)).unwrap_or(u32::MAX);
    let mut policy =
        ReconnectPolicy::new_exponential(0, small(tuning.retry_delay), small(tuning.retry_cap), 2);
    policy.set_jitter(small(tuning.retry_jitter));
    Builder::from_config(config)
        .set_policy(policy)
        .set_performance_config(PerformanceConfig {
            // None by default, and then a call before connect or after quit hangs for ever.
            default_command_timeout: tuning.command_timeout,
            broadcast_channel_capacity: capacity,
            ..PerformanceConfig::default()
        })
        .set_connection_config(ConnectionConfig {
            connection_timeout: tuning.connect_timeout,
            internal_command_timeout: tuning.connect_timeout,
            // A script whose reply is lost must not run again behind our back.
            max_command_attempts: 1,
            reconnect_on_auth_error: true,
            // Unbounded: a full queue also refuses fred's own request to reconnect, and ends it.
            max_command_buffer_len: 0,
            disable_cluster_health_check: true,
            tcp: TcpConfig {
                nodelay: Some(true),
                keepalive: Some(socket2::TcpKeepalive::new().with_time(Duration::from_secs(15))),
                ..TcpConfig::default()
            },
            ..ConnectionConfig::default()
        })
        .build()
        .map_err(|error| fault(&error, ""))
}

/// fred logs in to RESP3 by an inline command, `HELLO 3 AUTH user password`, and quotes nothing: a
/// space would end the word, and a line break the command. The server reads `"…"` with `\xHH` there.
fn inline_word(word: String) -> String {
    if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'".contains(&byte)) {
        return word;
    }
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
    let escaped = word.bytes().flat_map(|byte| ['\\', 'x', digit(byte >> 4), digit(byte & 15)]);
    ['"'].into_iter().chain(escaped).chain(['"']).collect()
}

/// Refuses a server that would answer, and never serve: it says what it is. One that may not be asked
/// is believed.
pub(super) async fn check_kind(client: &Client, within: Duration) -> Result<(), Fault> {
    let Ok(Value::String(facts)) = send(client, "INFO", vec!["server".into()], within).await else {
        return Ok(());
    };
    let mode = facts.lines().find_map(|line| line.strip_prefix("redis_mode:"));
    let what = match mode.map(str::trim) {
        Some("cluster") => "a cluster's node",
        Some("sentinel") => "a Sentinel",
        _ => return Ok(()),
    };
    let text = format!("the server is {what}, which is not supported yet: name one server that takes writes");
    Err(Fault { why: Why::Unfit, text, may_have_run: false })
}

/// One command, sent once, through `custom`: fred drops the options of its own script calls.
pub(super) async fn send(
    client: &Client,
    command: &'static str,
    words: Vec<Value>,
    within: Duration,
) -> Result<Value, Error> {
    let options = Options {
        max_attempts: Some(1),
        // Zero would mean no limit at all.
        timeout: Some(within.max(Duration::from_millis(1))),
        ..Options::default()
    };
    let command = CustomCommand::new_static(command, ClusterHash::FirstKey, false);
    client.with_options(&options).custom(command, words).await
}

/// Names the connection for `CLIENT LIST`. Where that is denied, it stays nameless.
pub(super) async fn name(client: &Client, name: &str, within: Duration) {
    if let Err(error) = send(client, "CLIENT", vec!["SETNAME".into(), name.into()], within).await {
        tracing::debug!(%error, "the connection stays nameless");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_password_is_one_inline_word() {
        assert_eq!(inline_word("pa/ss@\\:1".to_owned()), "pa/ss@\\:1", "most are words as they are");
        assert_eq!(inline_word("a b".to_owned()), r#""\x61\x20\x62""#);
        assert_eq!(inline_word("\"\r\n'".to_owned()), r#""\x22\x0d\x0a\x27""#);
        assert_eq!(inline_word("é".to_owned()), r#""\xc3\xa9""#);
        assert_eq!(inline_word(String::new()), r#""""#);
    }
}
