//! The options of a client.

use std::fmt;
use std::time::Duration;

use uuid::Uuid;

use crate::backoff::Backoff;
use crate::client::{Client, Defaults};
use crate::clock;
use crate::error::{Error, Phase};
use crate::hold::{Core, Settings};
use crate::server::{self, BadEndpoint, Endpoint, Tuning};
use crate::{options, who};

/// Options of a [`Client`], from [`Client::builder`]. All are checked by
/// [`connect`](Self::connect), before anything is sent.
///
/// A URL is `redis://[user:password@]host[:port][/database]`, or `valkey://` with the same meaning;
/// `rediss://` and `valkeys://` with TLS (feature `tls`); `redis+unix:///path` or a bare path for a
/// Unix socket (feature `unix-sockets`). Cluster and Sentinel URLs are refused: not supported yet.
#[must_use = "options do nothing until `connect`"]
pub struct ClientBuilder {
    endpoint: Result<Endpoint, BadEndpoint>,
    prefix: String,
    label: String,
    lease: Duration,
    margin: Duration,
    connect_timeout: Duration,
    command_timeout: Duration,
    retry: Backoff,
}

impl ClientBuilder {
    pub(crate) fn from_url(url: &str) -> Self {
        Self::new(Endpoint::from_url(url))
    }

    pub(crate) fn from_fred(client: &fred::clients::Client) -> Self {
        Self::new(Endpoint::from_client(client))
    }

    fn new(endpoint: Result<Endpoint, BadEndpoint>) -> Self {
        Self {
            endpoint,
            prefix: String::new(),
            label: String::new(),
            lease: options::LEASE,
            margin: Duration::from_millis(50),
            connect_timeout: Duration::from_secs(2),
            command_timeout: Duration::from_secs(1),
            retry: Backoff {
                first: Duration::from_millis(20),
                cap: Duration::from_secs(1),
                jitter: Duration::from_millis(20),
            },
        }
    }

    /// User and password, instead of those of the URL. An empty user is the server's default user.
    pub fn credentials(mut self, user: &str, password: &str) -> Self {
        let user = (!user.is_empty()).then(|| user.to_owned());
        self.endpoint = self.endpoint.map(|endpoint| endpoint.with_credentials(user, password.to_owned()));
        self
    }

    /// Trusts these authorities (PEM) instead of those of the system.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn authorities(mut self, pem: &[u8]) -> Self {
        self.endpoint = self.endpoint.and_then(|endpoint| endpoint.with_ca(pem));
        self
    }

    /// What every key and the push channel begin with. An ACL needs two key patterns and a channel:
    /// `~app:* ~{app:* &app:push:*`. Default: none.
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// A few words for others to see beside this client's holds, and in `CLIENT LIST`. At most 32
    /// bytes. Default: none.
    pub fn label(mut self, label: &str) -> Self {
        label.clone_into(&mut self.label);
        self
    }

    /// The lease of locks that are not told another. 200 ms to 24 h. Default: 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// What is taken off every deadline at least, for work that needs a moment to stop; more when
    /// timers are seen to run late, and never more than a tenth of the lease. A tenth is taken off
    /// besides, for clocks that run at different rates. At most 10 s. Default: 50 ms.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }

    /// For one attempt to connect. 10 ms to 60 s. Default: 2 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// For the reply to one command. Renewals wait for a tenth of their lease at most. 10 ms to 60 s.
    /// Default: 1 s.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// The delay before the first retry, of a command or a connection; doubled for each further one
    /// up to `cap`; with up to `jitter` added. Zero is allowed. Default: 20 ms, 1 s, 20 ms.
    pub fn retry(mut self, delay: Duration, cap: Duration, jitter: Duration) -> Self {
        self.retry = Backoff { first: delay, cap, jitter };
        self
    }

    /// Connects. Must be called within a tokio runtime, which then runs the client's tasks.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) names the option that is out of bounds;
    /// nothing was sent. Otherwise the server cannot be reached, does not answer in time, or refuses
    /// the login.
    ///
    /// # Cancel safety
    ///
    /// Safe: a dropped future leaves nothing behind.
    pub async fn connect(self) -> Result<Client, Error> {
        self.check().map_err(Error::invalid)?;
        let endpoint = self.endpoint.map_err(|bad| Error::invalid(bad.to_string()))?;
        let id = Uuid::new_v4();
        let tuning = Tuning {
            connect_timeout: self.connect_timeout,
            command_timeout: self.command_timeout,
            retry_delay: self.retry.first,
            retry_cap: self.retry.cap,
            retry_jitter: self.retry.jitter,
            label: (!self.label.is_empty()).then(|| self.label.clone()),
            ..Tuning::default()
        };
        let began = clock::now();
        let address = endpoint.address().to_owned();
        let channel = format!("{}push:{id}", self.prefix);
        let (server, pushes) = server::connect(endpoint, tuning, id, channel)
            .await
            .map_err(|fault| Error::from(fault).at(Phase::Connect, &address, clock::now().since(began)))?;
        let settings =
            Settings { command_timeout: self.command_timeout, backoff: self.retry, margin: self.margin };
        let core = Core::start(server, pushes, id, settings);
        Ok(Client::new(core, Defaults { prefix: self.prefix, label: self.label, lease: self.lease }))
    }

    fn check(&self) -> Result<(), String> {
        options::check_lease(self.lease)?;
        options::check_margin(self.margin)?;
        options::check_timeout("connect time-out", self.connect_timeout)?;
        options::check_timeout("command time-out", self.command_timeout)?;
        options::check_retry(self.retry.first, self.retry.cap, self.retry.jitter)?;
        who::check_label(&self.label)
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("endpoint", &self.endpoint)
            .field("prefix", &self.prefix)
            .field("label", &self.label)
            .field("lease", &self.lease)
            .field("margin", &self.margin)
            .field("connect_timeout", &self.connect_timeout)
            .field("command_timeout", &self.command_timeout)
            .field("retry", &self.retry)
            .finish()
    }
}
