//! What kind of server a test wants, and the configuration that says so.

use std::fmt::Write as _;

use crate::error::Error;
use crate::server::Server;
use crate::tls::Authority;
use crate::user::User;

/// What the library under test may do, as a rule of `ACL SETUSER`; `<prefix>` stands for the key prefix.
///
/// It is the line of the library's documentation and no more. This crate cannot ask the library for it, so
/// a test over there compares the two.
pub const RULE: &str = "~<prefix>* ~{<prefix>* &<prefix>push:* \
    +evalsha +eval +ping +subscribe +client|setname +client|id +info +select \
    +time +exists +type +pttl +pexpire +del \
    +incr +set +get \
    +hset +hget +hmget +hgetall +hexists +hlen +hdel \
    +zadd +zrem +zrange +zrank +zscore +zcard \
    +publish +pubsub|numsub";

/// The key prefix on a server of one's own.
pub(crate) const PREFIX: &str = "t:";

/// A server to be: see [`Server::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) own: bool,
    pub(crate) source: Option<&'static str>,
    pub(crate) unix: bool,
    pub(crate) tls: Option<Authority>,
    pub(crate) rule: String,
    pub(crate) prefix: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) args: Vec<(String, String)>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            own: false,
            source: None,
            unix: false,
            tls: None,
            rule: RULE.to_owned(),
            prefix: None,
            password: None,
            args: Vec::new(),
        }
    }

    /// A directive of the server's configuration: `.arg("--appendonly", "yes")`; with or without the dashes.
    #[must_use]
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        self.args.push((name.trim_start_matches('-').to_owned(), value.to_owned()));
        self.own()
    }

    /// Never the shared server of an address in the environment: this test restarts, pauses, kills or
    /// counts. [`Server::own`] in short.
    #[must_use]
    pub fn own(mut self) -> Self {
        self.own = true;
        self
    }

    /// From this source (`"container"`, for one), whatever the environment says; see [`crate::source`].
    #[must_use]
    pub fn source(mut self, name: &'static str) -> Self {
        self.source = Some(name);
        self.own()
    }

    /// Another rule than [`RULE`] for the library's user, as `ACL SETUSER` reads it; `<prefix>` stands for
    /// [`Server::prefix`].
    #[must_use]
    pub fn acl(mut self, rule: &str) -> Self {
        rule.clone_into(&mut self.rule);
        self
    }

    /// Another prefix than `t:`.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = Some(prefix.to_owned());
        self
    }

    /// A server that wants a password and no user name, as with `requirepass`. The user behind it, the
    /// server's default one, is limited by the same rule; so an append-only file is not for such a server,
    /// which would load it as that user.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.own()
    }

    /// The library reaches the server through a Unix socket.
    #[must_use]
    pub fn unix(mut self) -> Self {
        self.unix = true;
        self.own()
    }

    /// The library reaches the server by TLS only; its certificate is signed by an authority made for this
    /// server, [`Server::authority`].
    ///
    /// # Panics
    /// When no certificate can be made.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = Some(Authority::fresh());
        self
    }

    /// Starts the server.
    ///
    /// # Panics
    /// When there is none to be had; the message says what to install.
    pub async fn start(self) -> Server {
        match self.try_start().await {
            Ok(server) => server,
            Err(error) => panic!("no test server: {error}"),
        }
    }

    /// Starts the server.
    ///
    /// # Errors
    /// When there is none to be had, or it refuses its configuration.
    pub async fn try_start(self) -> Result<Server, Error> {
        Server::begin(&self).await
    }

    /// The user whom the library logs in as.
    pub(crate) fn lease_user(&self) -> User {
        self.password.as_ref().map_or_else(
            || User::fresh("lease"),
            |password| User { name: String::new(), password: password.clone() },
        )
    }

    /// The rule with its prefix filled in.
    pub(crate) fn rule_for(&self, prefix: &str) -> String {
        self.rule.replace("<prefix>", prefix)
    }

    /// The configuration file of a server that keeps its files in `folder`.
    pub(crate) fn configuration(
        &self,
        folder: &str,
        port: u16,
        tls_port: Option<u16>,
        admin: &User,
        lease: &User,
    ) -> String {
        let mut text = format!("port {port}\ndir {folder}\nsave \"\"\nappendonly no\n");
        let mut line = |words: std::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            let _always = writeln!(text, "{words}");
        };
        line(format_args!("user {} on >{} ~* &* +@all", admin.name, admin.password));
        let rule = self.rule_for(self.prefix.as_deref().unwrap_or(PREFIX));
        if lease.name.is_empty() {
            line(format_args!("user default reset on {} {rule}", quoted(&format!(">{}", lease.password))));
        } else {
            // Nobody slips in unrestricted. It is off, but may do everything: as this user the server loads
            // its append-only file, and what a script wrote there would be left out without a word.
            line(format_args!("user default off ~* &* +@all"));
            line(format_args!("user {} on >{} {rule}", lease.name, lease.password));
        }
        if let Some(port) = tls_port {
            line(format_args!("tls-port {port}\ntls-auth-clients no"));
            line(format_args!("tls-cert-file {folder}/cert.pem\ntls-key-file {folder}/key.pem"));
            line(format_args!("tls-ca-cert-file {folder}/authority.pem"));
        }
        if self.unix {
            line(format_args!("unixsocket {folder}/socket"));
            line(format_args!("unixsocketperm 777"));
        }
        for (name, value) in &self.args {
            let value = if value.is_empty() { "\"\"" } else { value };
            line(format_args!("{name} {value}"));
        }
        text
    }
}

/// A word as the configuration file reads it, whatever is in it.
fn quoted(word: &str) -> String {
    let mut text = String::from("\"");
    for byte in word.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'>' {
            text.push(char::from(byte));
        } else {
            let _always = write!(text, "\\x{byte:02x}");
        }
    }
    text + "\""
}
