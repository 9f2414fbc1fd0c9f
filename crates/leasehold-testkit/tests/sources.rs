//! Wherever a server comes from, it is the same value.

use std::time::Duration;

use leasehold_testkit::{Server, keys};

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
}

#[tokio::test]
async fn a_container() {
    let begun = std::time::Instant::now();
    match Server::builder().source("container").tls().try_start().await {
        Ok(server) => {
            eprintln!("{} in a container after {:?}", server.version(), begun.elapsed());
            obeys(&server).await;
        }
        // CI starts an engine and sets this; elsewhere a machine without one is no failure.
        Err(error) if std::env::var_os("LEASEHOLD_TEST_ENGINE").is_none() => {
            eprintln!("SKIPPED, no container was tested: {error}");
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_package() {
    let server = Server::builder().source("package").try_start().await;
    match server {
        Ok(server) => {
            assert!(server.version().starts_with("valkey 9"), "{}", server.version());
            obeys(&server).await;
        }
        Err(error) if std::env::var_os("CI").is_none() => {
            eprintln!("SKIPPED, no package was tested: {error}");
        }
        Err(error) => panic!("{error}"),
    }
}
