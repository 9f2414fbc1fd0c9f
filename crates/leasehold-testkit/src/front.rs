//! TLS in front of a server that was built without it.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::Error;
use crate::keeper::keep;
use crate::port::free;
use crate::tls::Authority;

/// Takes TLS connections and passes their bytes on; it ends, with its connections, on drop.
pub(crate) struct Front {
    address: String,
    task: JoinHandle<()>,
}

impl Front {
    pub(crate) fn before(target: &str, authority: &Authority) -> Result<Self, Error> {
        let acceptor = acceptor(authority).map_err(|error| Error::new(format!("no TLS: {error}")))?;
        let listener = loop {
            if let Ok(listener) = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, free())) {
                break listener;
            }
        };
        let failed = |error: io::Error| Error::new(format!("no TLS: {error}"));
        let address = listener.local_addr().map_err(failed)?.to_string();
        listener.set_nonblocking(true).map_err(failed)?;
        let target = target.to_owned();
        let task = keep(async move {
            if let Ok(listener) = TcpListener::from_std(listener) {
                serve(&listener, &acceptor, &target).await;
            }
        });
        Ok(Self { address, task })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: &TcpListener, acceptor: &TlsAcceptor, target: &str) {
    let mut conns = JoinSet::new();
    loop {
        while conns.try_join_next().is_some() {}
        if let Ok((client, _)) = listener.accept().await {
            // Whatever ends a connection, the client sees its end.
            conns.spawn(pass(client, acceptor.clone(), target.to_owned()));
        }
    }
}

async fn pass(client: TcpStream, acceptor: TlsAcceptor, target: String) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut client = acceptor.accept(client).await?;
    let mut server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

fn acceptor(authority: &Authority) -> Result<TlsAcceptor, Box<dyn std::error::Error>> {
    let [_, (_, cert), (_, key)] = authority.files();
    let cert = CertificateDer::from_pem_slice(cert.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    // Named, because other crates in a build may bring another provider.
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![cert], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
