//! A server as a value.

use tokio::sync::Mutex;

use crate::admin::Admin;
use crate::builder::{Builder, PREFIX};
use crate::error::Error;
use crate::front::Front;
use crate::source::{self, Seat};
use crate::user::User;

/// A running server; it ends when this value is dropped, or when the test process dies in whatever way.
///
/// Where an address in the environment names a server, [`Server::start`] answers that one, with a user and
/// a prefix of one's own. It cannot be restarted, paused or killed, and others use it too: a test that does
/// such things, or counts commands, asks for [`Server::own`].
pub struct Server {
    /// Where the testkit connects.
    plain: String,
    /// Where the library connects: the same, but for TLS.
    address: String,
    authority: Option<String>,
    socket: Option<String>,
    prefix: String,
    version: String,
    source: &'static str,
    lease: User,
    admin: User,
    seat: Mutex<Seat>,
    /// Kept for its drop.
    _front: Option<Front>,
}

impl Server {
    /// A server for this test.
    ///
    /// # Panics
    /// When there is none to be had; the message says what to install.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// A server for this test.
    ///
    /// # Errors
    /// When there is none to be had.
    pub async fn try_start() -> Result<Self, Error> {
        Self::builder().try_start().await
    }

    /// A server that nobody else uses, so that it can be restarted, paused, killed and counted.
    ///
    /// # Panics
    /// When there is none to be had; the message says what to install.
    pub async fn own() -> Self {
        Self::builder().own().start().await
    }

    /// A server with a wish or two.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) async fn begin(builder: &Builder) -> Result<Self, Error> {
        let only_here;
        let source = if builder.source.is_some() {
            only_here = source::find(builder.source, true).await?;
            &only_here
        } else {
            source::found(builder.own).await?
        };
        let admin = User::fresh("testkit");
        let lease = builder.lease_user();
        let mut begun = match source.begin(builder, admin.clone(), lease.clone()).await {
            Err(error) if builder.tls.is_some() && built_without_tls(&error) => {
                let plain = Builder { tls: None, ..builder.clone() };
                source.begin(&plain, admin, lease).await?
            }
            begun => begun?,
        };
        let front = match (&builder.tls, &begun.tls) {
            (Some(authority), None) => Some(Front::before(&begun.address, authority)?),
            _ => None,
        };
        if let Some(front) = &front {
            begun.tls = Some(front.address().to_owned());
        }
        let mut server = Self {
            address: begun.tls.unwrap_or_else(|| begun.address.clone()),
            authority: builder.tls.as_ref().map(|tls| tls.certificate().to_owned()),
            plain: begun.address,
            socket: begun.socket,
            prefix: begun.prefix.unwrap_or_else(|| builder.prefix.clone().unwrap_or_else(|| PREFIX.into())),
            version: String::new(),
            source: source.name(),
            lease: begun.lease,
            admin: begun.admin,
            seat: Mutex::new(begun.seat),
            _front: front,
        };
        let info = server.admin().await.call(&["INFO", "server"]).await.text();
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        server.version = match (field("valkey_version"), field("redis_version")) {
            (Some(valkey), _) => format!("valkey {valkey}"),
            (None, redis) => format!("redis {}", redis.unwrap_or("unknown")),
        };
        source::announce(source, &server.version);
        Ok(server)
    }

    /// Where the library under test connects to, as its restricted user.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.socket {
            Some(path) => format!("redis+unix://{}localhost{path}", self.lease.credentials()),
            None => self.url_through(&self.address),
        }
    }

    /// The same by another address in front of this server, for one's own proxy.
    #[must_use]
    pub fn url_through(&self, address: &str) -> String {
        let scheme = if self.authority.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://{}{address}", self.lease.credentials())
    }

    /// As a user who may do everything, without TLS. For the special case only: what runs here proves nothing about the
    /// documented ACL line.
    #[must_use]
    pub fn open_url(&self) -> String {
        format!("redis://{}{}", self.admin.credentials(), self.plain)
    }

    /// The name that the library logs in by.
    #[must_use]
    pub fn user(&self) -> &str {
        if self.lease.name.is_empty() { "default" } else { &self.lease.name }
    }

    /// What every key of the library's user starts with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The authority that signed the certificate of a TLS server, as PEM.
    #[must_use]
    pub fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// Host and port that the library connects to.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The port that the library connects to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0)
    }

    /// Name and number, as in `redis 7.0.15` or `valkey 9.0.0`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Where it comes from: `address`, `binary`, `container` or `package`.
    #[must_use]
    pub const fn source(&self) -> &'static str {
        self.source
    }

    /// A new connection that may do everything.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn admin(&self) -> Admin {
        match Admin::connect(&self.plain, &self.admin.name, &self.admin.password).await {
            Ok(admin) => admin,
            Err(error) => panic!("no admin connection to {}: {error}", self.plain),
        }
    }

    /// Kills the process and starts it again on its port, as after a power cut: what it comes back with is
    /// what it had written (nothing, without `.arg("appendonly", "yes")`). Also starts a killed one.
    ///
    /// # Panics
    /// When it does not come back, or is not this test's own.
    pub async fn restart(&self) {
        let mut seat = self.seat.lock().await;
        must("restart", seat.kill().await);
        must("restart", seat.start().await);
        must("restart", self.ready(&mut seat).await);
    }

    /// Stops the process where it is; its connections stay open and silent.
    ///
    /// # Panics
    /// When the server is not this test's own, or is not running.
    pub async fn pause(&self) {
        must("pause", self.seat.lock().await.pause().await);
    }

    /// Lets a paused process go on.
    ///
    /// # Panics
    /// When the server is not this test's own, or is not running.
    pub async fn resume(&self) {
        must("resume", self.seat.lock().await.resume().await);
    }

    /// Ends the process at once; its port then refuses connections.
    ///
    /// # Panics
    /// When the server is not this test's own.
    pub async fn kill(&self) {
        must("kill", self.seat.lock().await.kill().await);
    }

    async fn ready(&self, seat: &mut Seat) -> Result<(), Error> {
        source::ready(seat, &self.plain, &self.admin).await
    }
}

fn must<T>(what: &str, done: Result<T, Error>) -> T {
    match done {
        Ok(value) => value,
        Err(error) => panic!("cannot {what} the server: {error}"),
    }
}

fn built_without_tls(error: &Error) -> bool {
    let text = error.to_string();
    // Redis does not know the directive; Valkey does, and misses what it stands for.
    text.contains("tls-port") || text.contains("Failed finding TLS support")
}
