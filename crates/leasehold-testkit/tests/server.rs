//! The server obeys.

use std::time::Duration;

use leasehold_testkit::{Admin, Direction, Relay, Server, eventually, keys, stats};

#[tokio::test]
async fn starts_alone_and_restarts_empty_on_its_port() {
    let begun = std::time::Instant::now();
    let server = Server::own().await;
    eprintln!("started in {:?}", begun.elapsed());
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
    assert_eq!(admin.next().await.unwrap().text(), "PONG");
    server.kill().await;
    assert!(tokio::net::TcpStream::connect(server.address()).await.is_err());
    server.restart().await;
    server.admin().await;
}

#[tokio::test]
async fn counts_and_relays() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let before = stats(&mut admin).await;
    admin.call(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "t:n"]).await;
    let ran = stats(&mut admin).await - before;
    assert_eq!((ran.of("eval"), ran.of("incr"), ran.of("get")), (1, 1, 0));

    let relay = Relay::to(&server).await;
    let (user, rest) = server
        .open_url()
        .trim_start_matches("redis://")
        .split_once(':')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let password = rest.split_once('@').unwrap().0.to_owned();
    let mut one = Admin::connect(&relay.address(), &user, &password).await.unwrap();
    let mut two = Admin::connect(&relay.address(), &user, &password).await.unwrap();
    assert_eq!(relay.accepted(), 2);
    relay.conn(0).hold(Direction::ToClient);
    assert_eq!(two.call(&["PING"]).await.text(), "PONG");
    assert!(tokio::time::timeout(Duration::from_millis(100), one.try_call(&["INCR", "t:n"])).await.is_err());
    assert_eq!(two.call(&["GET", "t:n"]).await.int(), 2);
    relay.let_go();
    assert_eq!(one.next().await.unwrap().int(), 2);
    relay.conn(1).cut();
    assert!(two.try_call(&["PING"]).await.is_err());
    assert_eq!(one.call(&["PING"]).await.text(), "PONG");
    relay.refuse();
    assert!(Admin::connect(&relay.address(), &user, &password).await.is_err());
    relay.accept();
    Admin::connect(&relay.address(), &user, &password).await.unwrap();
    relay.cut();
    eventually("nothing is open", Duration::from_secs(1), async || relay.conns().is_empty()).await;
}
