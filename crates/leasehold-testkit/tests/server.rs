//! The server obeys.

use std::time::Duration;

use leasehold_testkit::{Admin, Server, keys};

#[tokio::test]
async fn starts_alone_and_restarts_empty_on_its_port() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    admin.call(&["SET", "t:a", "1"]).await;
    assert_eq!(keys(&mut admin).await, ["t:a"]);
    server.restart().await;
    assert!(admin.try_call(&["PING"]).await.is_err());
    assert_eq!(keys(&mut server.admin().await).await, Vec::<String>::new());
}

#[tokio::test]
async fn comes_back_with_what_it_wrote() {
    let server = Server::builder().arg("--appendonly", "yes").start().await;
    server.admin().await.call(&["SET", "t:a", "1"]).await;
    server.restart().await;
    assert_eq!(server.admin().await.call(&["GET", "t:a"]).await.int(), 1);
}

#[tokio::test]
async fn a_paused_server_is_silent_and_a_killed_one_refuses() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    server.pause().await;
    let silent = tokio::time::timeout(Duration::from_millis(100), admin.try_call(&["PING"])).await;
    assert!(silent.is_err());
    server.resume().await;
    assert_eq!(admin.next().await.text(), "PONG");
    server.kill().await;
    assert!(tokio::net::TcpStream::connect(server.address()).await.is_err());
    server.restart().await;
    server.admin().await;
}

#[tokio::test]
async fn the_library_s_user_is_limited_to_its_prefix_and_its_commands() -> std::io::Result<()> {
    let server = Server::start().await;
    let url = server.url();
    let login = url.trim_start_matches("redis://").split('@').next().unwrap_or_default();
    let (user, password) = login.split_once(':').unwrap_or_default();
    let mut lease = Admin::connect(server.address(), user, password).await?;
    let prefix = server.prefix();
    for key in [format!("{prefix}a"), format!("{{{prefix}a}}:queue")] {
        assert_eq!(lease.call(&["EXISTS", &key]).await.int(), 0);
    }
    for words in [&["EXISTS", "a"][..], &["KEYS", "*"], &["SUBSCRIBE", "a"], &["CONFIG", "GET", "*"]] {
        let reply = lease.call(words).await;
        assert!(reply.error().is_some_and(|text| text.starts_with("NOPERM")), "{words:?}: {reply:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_server_wants_a_password_or_listens_on_a_socket() -> std::io::Result<()> {
    let server = Server::builder().password("p@ss word").start().await;
    assert!(server.url().starts_with("redis://:p%40ss%20word@127.0.0.1:"), "{}", server.url());
    assert!(Admin::connect(server.address(), "", "wrong").await.is_err());
    let mut lease = Admin::connect(server.address(), "", "p@ss word").await?;
    assert!(lease.call(&["EXISTS", "a"]).await.error().is_some());

    if server.source() == "container" {
        return Ok(()); // A socket does not reach out of it.
    }
    let server = Server::builder().unix().start().await;
    let url = server.url();
    let path = url.split_once("@localhost").map(|(_, path)| path.to_owned()).unwrap_or_default();
    tokio::net::UnixStream::connect(path).await?;
    Ok(())
}
