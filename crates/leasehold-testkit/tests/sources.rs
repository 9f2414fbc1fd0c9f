//! Wherever a server comes from, it is the same value.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_testkit::{Server, keys, say};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Everything that a test may ask of a server of its own.
async fn obeys(server: &Server) {
    let mut admin = server.admin().await;
    admin.call(&["SET", "t:a", "1"]).await;
    server.pause().await;
    let silent = tokio::time::timeout(Duration::from_millis(100), admin.try_call(&["PING"])).await;
    assert!(silent.is_err(), "a paused server answered");
    server.resume().await;
    assert_eq!(admin.next().await.text(), "PONG");
    let port = server.port();
    server.kill().await;
    assert!(admin.try_call(&["PING"]).await.is_err(), "a killed server answered");
    server.restart().await;
    assert_eq!(server.port(), port);
    assert_eq!(keys(&mut server.admin().await).await, Vec::<String>::new());
    server.pause().await;
    server.restart().await;
    server.admin().await;
}

/// A server that speaks TLS, to those who trust its authority.
async fn speaks_tls(server: &Server) -> std::io::Result<()> {
    assert!(server.url().starts_with("rediss://"));
    let pem = server.authority().unwrap_or_default().as_bytes();
    let authority = CertificateDer::from_pem_slice(pem).map_err(std::io::Error::other)?;
    let mut roots = RootCertStore::empty();
    roots.add(authority).map_err(std::io::Error::other)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").map_err(std::io::Error::other)?;
    let stream = TcpStream::connect(server.address()).await?;
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    stream.write_all(b"GET t:a\r\n").await?;
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).await?;
    assert_eq!(&reply, b"-NOAUTH");
    Ok(())
}

#[tokio::test]
async fn a_binary() -> std::io::Result<()> {
    let Ok(server) = Server::builder().source("binary").tls().try_start().await else {
        say("SKIPPED: no server binary on the PATH");
        return Ok(());
    };
    speaks_tls(&server).await?;
    obeys(&server).await;
    Ok(())
}

#[tokio::test]
async fn a_container() -> std::io::Result<()> {
    let begun = Instant::now();
    match Server::builder().source("container").tls().try_start().await {
        Ok(server) => {
            say(&format!("a container answered after {:?}", begun.elapsed()));
            speaks_tls(&server).await?;
            obeys(&server).await;
        }
        // CI starts an engine and sets this; elsewhere a machine without one is no failure.
        Err(error) if std::env::var_os("LEASEHOLD_TEST_IMAGE").is_none() => {
            say(&format!("SKIPPED, no container was tested: {error}"));
        }
        Err(error) => panic!("{error}"),
    }
    Ok(())
}

#[tokio::test]
async fn a_package() -> std::io::Result<()> {
    match Server::builder().source("package").tls().try_start().await {
        Ok(server) => {
            assert!(server.version().starts_with("valkey 9"), "{}", server.version());
            speaks_tls(&server).await?;
            obeys(&server).await;
        }
        Err(error) if std::env::var_os("CI").is_none() => {
            say(&format!("SKIPPED, no package was tested: {error}"));
        }
        Err(error) => panic!("{error}"),
    }
    Ok(())
}
