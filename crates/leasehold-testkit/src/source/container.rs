//! A server in a container, by whichever engine testcontainers finds.

use std::sync::Arc;
use std::time::Duration;

use testcontainers::core::IntoContainerPort;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, GenericImage, ImageExt, TestcontainersError};

use crate::builder::Builder;
use crate::error::Error;
use crate::keeper::{at_last, there};
use crate::patience;
use crate::port::free;
use crate::source::{Begun, Seat, ready, tail};
use crate::user::User;
use crate::watchdog::Watchdog;

/// The ports inside: plain and TLS.
const PORTS: (u16, u16) = (6379, 6380);
/// Where a server finds its files inside; not `/data`, which is a volume in some images.
const HOME: &str = "/tmp/leasehold";

/// What runs in the container: whichever server the image has. A test that is stopped by a signal removes
/// its containers; for one that is killed a watchdog does, where there is a `docker` command; else the hour.
const COMMAND: &str = "exec timeout 3600 \
    \"$(command -v valkey-server || command -v redis-server)\" /tmp/leasehold/server.conf";

/// An image that a server was started from.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    name: String,
    tag: String,
}

/// A container, removed on drop.
pub(crate) struct Held {
    container: Option<Arc<ContainerAsync<GenericImage>>>,
    /// Kept for its drop, after the container's.
    _watchdog: Watchdog,
}

/// The image that the environment names, or `redis:8`, if a server starts from it.
pub(crate) async fn find() -> Result<Image, Error> {
    let named = std::env::var("LEASEHOLD_TEST_IMAGE").ok().filter(|name| !name.is_empty());
    let named = named.unwrap_or_else(|| "redis:8".to_owned());
    // A colon before the last slash belongs to a registry's port.
    let (name, tag) = match named.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (named.as_str(), "latest"),
    };
    let image = Image { name: name.to_owned(), tag: tag.to_owned() };
    // Nothing less than a start shows that the engine answers, and that the image is there or can be pulled.
    let plain = Builder::new();
    let probe = image.begin(&plain, User::fresh("testkit"), User::fresh("lease"));
    probe.await.map_err(|error| Error::new(format!("a container of {}: {error}", image.shown())))?;
    Ok(image)
}

impl Image {
    pub(crate) fn shown(&self) -> String {
        format!("{}:{}", self.name, self.tag)
    }

    pub(crate) async fn begin(&self, builder: &Builder, admin: User, lease: User) -> Result<Begun, Error> {
        if builder.unix {
            return Err(Error::new(
                "a Unix socket does not reach out of a container; \
                take another source (LEASEHOLD_TEST_SERVER)",
            ));
        }
        let mut last = None;
        for _ in 0..20 {
            let ports = (free(), builder.tls.as_ref().map(|_| free()));
            match self.run(builder, ports, &admin, &lease).await {
                Ok(held) => {
                    let mut seat = Seat::Container(held);
                    let address = format!("127.0.0.1:{}", ports.0);
                    ready(&mut seat, &address, &admin).await?;
                    let tls = ports.1.map(|port| format!("127.0.0.1:{port}"));
                    return Ok(Begun { address, tls, socket: None, prefix: None, admin, lease, seat });
                }
                // Somebody else took the port since it was found free.
                Err(error) if error.to_string().contains("already") => last = Some(said(&error)),
                Err(error) => return Err(said(&error)),
            }
        }
        Err(last.unwrap_or_else(|| Error::new("no free port")))
    }

    async fn run(
        &self,
        builder: &Builder,
        ports: (u16, Option<u16>),
        admin: &User,
        lease: &User,
    ) -> Result<Held, TestcontainersError> {
        let text = builder.configuration(HOME, PORTS.0, ports.1.map(|_| PORTS.1), admin, lease);
        let text = format!("bind 0.0.0.0\nprotected-mode no\n{text}");
        let mut request = GenericImage::new(&self.name, &self.tag)
            .with_cmd(["sh", "-c", COMMAND])
            .with_copy_to(format!("{HOME}/server.conf"), text.into_bytes())
            .with_mapped_port(ports.0, PORTS.0.tcp())
            .with_startup_timeout(patience(Duration::from_secs(60)))
            .with_host_config_modifier(|host| {
                // Loopback only: by default an engine publishes on every interface.
                for bindings in host.port_bindings.iter_mut().flat_map(|ports| ports.values_mut()) {
                    for binding in bindings.iter_mut().flatten() {
                        binding.host_ip = Some("127.0.0.1".to_owned());
                    }
                }
            });
        if let (Some(port), Some(tls)) = (ports.1, &builder.tls) {
            request = request.with_mapped_port(port, PORTS.1.tcp());
            for (name, pem) in tls.files() {
                request = request.with_copy_to(format!("{HOME}/{name}"), pem.as_bytes().to_vec());
            }
        }
        let container = there(async move { request.start().await }).await?;
        let watchdog = Watchdog::set(r#"docker rm --force --volumes "$1""#, &[container.id().as_ref()])
            .map_err(TestcontainersError::other)?;
        Ok(Held { container: Some(Arc::new(container)), _watchdog: watchdog })
    }
}

impl Held {
    fn container(&self) -> Result<Arc<ContainerAsync<GenericImage>>, Error> {
        self.container.clone().ok_or_else(|| Error::new("the container is gone"))
    }

    pub(crate) async fn start(&self) -> Result<(), Error> {
        let it = self.container()?;
        there(async move { it.start().await }).await.map_err(|error| said(&error))
    }

    pub(crate) async fn kill(&self) -> Result<(), Error> {
        let it = self.container()?;
        // An engine does not end what it has paused. Most are not paused, which is the error.
        let paused = Arc::clone(&it);
        let _not_paused = there(async move { paused.unpause().await }).await;
        there(async move { it.stop_with_timeout(Some(0)).await }).await.map_err(|error| said(&error))
    }

    /// Why it ended by itself, if it did.
    pub(crate) async fn ended(&self) -> Option<Error> {
        let it = self.container().ok()?;
        there(async move {
            if it.is_running().await.ok()? {
                return None;
            }
            let log = it.stdout_to_vec().await.unwrap_or_default();
            Some(Error::new(format!("the server ended: {}", tail(&String::from_utf8_lossy(&log)))))
        })
        .await
    }

    pub(crate) async fn pause(&self) -> Result<(), Error> {
        let it = self.container()?;
        there(async move { it.pause().await }).await.map_err(|error| said(&error))
    }

    pub(crate) async fn resume(&self) -> Result<(), Error> {
        let it = self.container()?;
        there(async move { it.unpause().await }).await.map_err(|error| said(&error))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Its own drop wants a runtime around it.
        if let Some(container) = self.container.take() {
            at_last(async move { drop(container) });
        }
    }
}

fn said(error: &TestcontainersError) -> Error {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    Error::new(text)
}
