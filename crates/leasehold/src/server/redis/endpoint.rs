//! Where the server is, and how to log in: from a URL, or from a user's own fred client.

use std::fmt;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::config::{Config, ServerConfig};

/// One server. Its password is in no text that this type gives.
#[derive(Clone)]
pub(crate) struct Endpoint {
    config: Config,
    pub(super) address: String,
    /// TLS by the system's authorities, which are read when it comes to connecting: a machine
    /// without any may be given one's own.
    #[cfg(feature = "tls")]
    system_tls: bool,
}

/// Why an address was refused. Never repeats it: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadEndpoint {
    #[error(
        "the URL is not understood ({0}); it looks like redis://[user:password@]host[:port][/database], \
         rediss:// for TLS, or redis+unix:///path/to/socket"
    )]
    Malformed(&'static str),
    #[error("{0} servers are not supported yet: name one server that takes writes")]
    Unsupported(&'static str),
    #[error("this build cannot do {what}: switch on the feature `{feature}` of `leasehold`")]
    NeedsFeature { what: &'static str, feature: &'static str },
    #[cfg(feature = "tls")]
    #[error("TLS: {0}")]
    Tls(String),
}

impl Endpoint {
    pub(crate) fn from_url(url: &str) -> Result<Self, BadEndpoint> {
        // A bare path is a socket: what people have at hand.
        let url = if url.starts_with('/') { format!("redis+unix://{url}") } else { url.to_owned() };
        let Some((scheme, _)) = url.split_once("://") else {
            return Err(BadEndpoint::Malformed("no scheme"));
        };
        let (family, kind) = match scheme.split_once(['+', '-']) {
            Some((family, kind)) => (family, kind),
            None if scheme == "unix" => ("redis", "unix"),
            None => (scheme, ""),
        };
        let tls = match family {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(BadEndpoint::Malformed("unknown scheme")),
        };
        match kind {
            "" => {}
            "cluster" => return Err(BadEndpoint::Unsupported("cluster")),
            "sentinel" => return Err(BadEndpoint::Unsupported("Sentinel")),
            "unix" if tls => return Err(BadEndpoint::Malformed("TLS through a Unix socket")),
            "unix" => return unix(&url),
            _ => return Err(BadEndpoint::Malformed("unknown scheme")),
        }
        if tls && !cfg!(feature = "tls") {
            return Err(BadEndpoint::NeedsFeature { what: "TLS", feature: "tls" });
        }
        // Always read as a plain one: fred's own TLS set-up panics where two crypto providers are
        // linked, and fails on a single bad certificate of the system.
        let plain = url.replacen(scheme, "redis", 1);
        let config = Config::from_url_centralized(&plain)
            .map_err(|_| BadEndpoint::Malformed("host, port or database"))?;
        let endpoint = Self::of(config);
        #[cfg(feature = "tls")]
        let endpoint = Self { system_tls: tls, ..endpoint };
        Ok(endpoint)
    }

    /// Reads the client's configuration: our connections are our own, with the same server, login
    /// and TLS. Sharing its connection would let its traffic delay renewals.
    pub(crate) fn from_client(client: &Client) -> Result<Self, BadEndpoint> {
        let config = client.client_config();
        if config.server.is_clustered() {
            Err(BadEndpoint::Unsupported("cluster"))
        } else if config.server.is_sentinel() {
            Err(BadEndpoint::Unsupported("Sentinel"))
        } else {
            Ok(Self::of(config))
        }
    }

    /// Host and port, or the socket's path.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Instead of what the URL says.
    pub(crate) fn with_credentials(mut self, username: Option<String>, password: String) -> Self {
        self.config.username = username;
        self.config.password = Some(password);
        self
    }

    /// Trusts exactly these authorities (PEM) instead of those of the system.
    #[cfg(feature = "tls")]
    pub(crate) fn with_ca(mut self, pem: &[u8]) -> Result<Self, BadEndpoint> {
        if !self.system_tls && self.config.tls.is_none() {
            return Err(BadEndpoint::Tls(
                "an authority, but no TLS: the URL must begin with rediss://".to_owned(),
            ));
        }
        self.config.tls = Some(super::tls::trusting(pem)?);
        self.system_tls = false;
        Ok(self)
    }

    /// What fred connects by.
    #[cfg(feature = "tls")]
    pub(super) fn config(&self) -> Result<Config, BadEndpoint> {
        let mut config = self.config.clone();
        if self.system_tls {
            config.tls = Some(super::tls::trusting_the_system()?);
        }
        Ok(config)
    }

    /// What fred connects by.
    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unnecessary_wraps, reason = "the same signature with TLS, where it can fail")]
    pub(super) fn config(&self) -> Result<Config, BadEndpoint> {
        Ok(self.config.clone())
    }

    fn of(mut config: Config) -> Self {
        if let ServerConfig::Centralized { server } = &mut config.server {
            // fred hands a bracketed IPv6 address to the resolver as it stands.
            let bare = server.host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            if let Some(bare) = bare {
                server.host = bare.into();
            }
        }
        let address = match &config.server {
            ServerConfig::Centralized { server } if server.host.contains(':') => {
                format!("[{}]:{}", server.host, server.port)
            }
            ServerConfig::Centralized { server } => format!("{}:{}", server.host, server.port),
            other => other.hosts().first().map_or_else(String::new, |server| server.host.to_string()),
        };
        Self {
            config,
            address,
            #[cfg(feature = "tls")]
            system_tls: false,
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(feature = "unix-sockets")]
fn unix(url: &str) -> Result<Endpoint, BadEndpoint> {
    // `unix:` is not a scheme of fred's.
    let url =
        url.strip_prefix("unix://").map_or_else(|| url.to_owned(), |path| format!("redis+unix://{path}"));
    let config = Config::from_url_unix(&url).map_err(|_| BadEndpoint::Malformed("path of the socket"))?;
    match &config.server {
        ServerConfig::Unix { path } if path.is_absolute() => Ok(Endpoint::of(config)),
        _ => Err(BadEndpoint::Malformed("path of the socket")),
    }
}

#[cfg(not(feature = "unix-sockets"))]
fn unix(_url: &str) -> Result<Endpoint, BadEndpoint> {
    Err(BadEndpoint::NeedsFeature { what: "Unix sockets", feature: "unix-sockets" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_one_server() {
        for (url, address) in [
            ("redis://h", "h:6379"),
            ("valkey://h:7000/3", "h:7000"),
            ("redis://user:pa%2Fss@h:1", "h:1"),
            ("redis://[::1]:7000", "[::1]:7000"),
        ] {
            assert_eq!(Endpoint::from_url(url).unwrap().address, address, "{url}");
        }
        let endpoint = Endpoint::from_url("redis://user:pa%2Fss@h:1/2").unwrap();
        assert_eq!(endpoint.config.password.as_deref(), Some("pa/ss"));
        assert_eq!(endpoint.config.database, Some(2));
        let endpoint = endpoint.with_credentials(None, "other".to_owned());
        assert_eq!((endpoint.config.username, endpoint.config.password.as_deref()), (None, Some("other")));
    }

    #[test]
    fn what_is_not_there_yet_says_so() {
        assert_eq!(Endpoint::from_url("redis-cluster://h").unwrap_err(), BadEndpoint::Unsupported("cluster"));
        assert_eq!(
            Endpoint::from_url("valkeys-sentinel://h?sentinelServiceName=x").unwrap_err(),
            BadEndpoint::Unsupported("Sentinel")
        );
    }

    #[test]
    fn no_text_shows_the_password() {
        let bad = [
            "redis://u:s3cret@h:port",
            "redis://u:s3cret@",
            "redis://u:s3cret@h/x",
            "http://u:s3cret@h",
            "s3cret",
        ];
        for url in bad {
            let error = Endpoint::from_url(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{url}");
        }
        let shown = format!("{:?}", Endpoint::from_url("redis://u:s3cret@h").unwrap());
        assert!(shown.contains("h:6379") && !shown.contains("s3cret"), "{shown}");
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_names_its_feature() {
        let error = Endpoint::from_url("rediss://h").unwrap_err().to_string();
        assert!(error.contains("feature `tls`"), "{error}");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_pem_without_certificates_is_refused() {
        let endpoint = Endpoint::from_url("valkeys://u:p@h:7/1").unwrap();
        assert!(endpoint.system_tls && endpoint.config.database == Some(1));
        assert!(matches!(endpoint.with_ca(b"nothing"), Err(BadEndpoint::Tls(_))));
        let plain = Endpoint::from_url("redis://h").unwrap();
        assert!(matches!(plain.with_ca(b""), Err(BadEndpoint::Tls(text)) if text.contains("rediss://")));
    }

    #[test]
    fn unix_sockets_by_url_or_path() {
        for url in ["redis+unix:///run/r.sock", "unix:///run/r.sock", "/run/r.sock"] {
            match Endpoint::from_url(url) {
                Ok(endpoint) => assert_eq!(endpoint.address, "/run/r.sock", "{url}"),
                Err(error) => {
                    assert!(matches!(error, BadEndpoint::NeedsFeature { feature: "unix-sockets", .. }));
                }
            }
        }
    }

    #[test]
    fn a_configured_client_is_read() {
        let config = Config::from_url("redis://u:p@h:7").unwrap();
        let client = fred::types::Builder::from_config(config).build().unwrap();
        assert_eq!(Endpoint::from_client(&client).unwrap().address, "h:7");
        let config = Config::from_url("redis-cluster://h:7").unwrap();
        let client = fred::types::Builder::from_config(config).build().unwrap();
        assert_eq!(Endpoint::from_client(&client).unwrap_err(), BadEndpoint::Unsupported("cluster"));
    }
}
