//! A client: two connections, three tasks, and the locks made from it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::builder::ClientBuilder;
use crate::error::Error;
use crate::hold::{self, Core};
use crate::key::Keys;
use crate::lock::Lock;

/// A client of one Redis or Valkey server. Cheap to clone; all clones share connections and tasks.
///
/// When the last clone, lock and guard is dropped, what is under way is finished in the background
/// and the connections end. To wait for that, call [`close_within`](Self::close_within).
#[derive(Clone)]
pub struct Client {
    core: Arc<Core>,
    defaults: Arc<Defaults>,
}

/// What locks begin with.
#[derive(Debug)]
pub(crate) struct Defaults {
    pub(crate) prefix: String,
    pub(crate) label: String,
    pub(crate) lease: Duration,
}

impl Client {
    pub(crate) fn new(core: Arc<Core>, defaults: Defaults) -> Self {
        Self { core, defaults: Arc::new(defaults) }
    }

    /// Connects with the default options. See [`ClientBuilder`] for what a URL can be.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a URL that is not understood or not
    /// supported; otherwise the server cannot be reached, does not answer, or refuses the login.
    ///
    /// # Cancel safety
    ///
    /// Safe: a dropped future leaves nothing behind.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder(url).connect().await
    }

    /// Options for a client of the server at `url`.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder::from_url(url)
    }

    /// Options for a client of the server that a user's own fred client is configured for: its
    /// address, login, TLS and database are read, and nothing else. The connections are this
    /// library's own, so that neither delays the other; the given client need not be connected.
    ///
    /// The one place of this API that names a type of fred's.
    pub fn builder_from_fred(client: &fred::clients::Client) -> ClientBuilder {
        ClientBuilder::from_fred(client)
    }

    /// A handle on the lock `name`, behind the client's prefix. Sends nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a name that is empty, longer than 512
    /// bytes with its prefix, has unbalanced or empty braces, is wholly a hash tag (`{a}`), or is a
    /// side key of another lock (`{a}:queue`).
    pub fn lock(&self, name: &str) -> Result<Lock, Error> {
        let Defaults { prefix, label, lease } = &*self.defaults;
        let keys = Keys::new(prefix, name).map_err(|bad| Error::invalid(bad.to_string()).with_lock(name))?;
        Ok(Lock::new(self.core.clone(), keys, *lease, label))
    }

    /// The server's host and port, or its socket's path.
    #[must_use]
    pub fn address(&self) -> &str {
        self.core.shared.server.address()
    }

    /// Closes the client: refuses new acquisitions, takes its waiters out of their queues, releases
    /// its holds, gives back grants that still arrive, and ends its connections and tasks. Waits end
    /// with [`ErrorKind::Closed`](crate::ErrorKind::Closed), live guards are lost with
    /// [`LostReason::Closed`](crate::LostReason::Closed).
    ///
    /// Takes `within` at the most; leases end what could not be released by then. Every clone is
    /// closed with it.
    ///
    /// On `SIGTERM`: stop taking new work, let running work finish or cancel it, then call this with
    /// what is left of the grace period.
    ///
    /// # Cancel safety
    ///
    /// The client is closed to new acquisitions from the first poll on. Call it again to finish.
    pub async fn close_within(&self, within: Duration) {
        hold::close(&self.core, within).await;
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.address())
            .field("defaults", &self.defaults)
            .finish_non_exhaustive()
    }
}
