//! The relay holds, cuts and refuses; nothing that it holds is lost.

use std::time::Duration;

use leasehold_testkit::{Admin, Direction, Relay, Server, eventually, stats};

/// A raw connection through the relay, as the library's user.
async fn through(relay: &Relay) -> std::io::Result<Admin> {
    let url = relay.url();
    let login = url.trim_start_matches("redis://").split('@').next().unwrap_or_default();
    let (user, password) = login.split_once(':').unwrap_or_default();
    Admin::connect(&relay.address(), user, password).await
}

/// Whether an answer to this stays away for a while.
async fn silent(conn: &mut Admin, words: &[&str]) -> bool {
    tokio::time::timeout(Duration::from_millis(100), conn.try_call(words)).await.is_err()
}

#[tokio::test]
async fn one_direction_of_one_connection_is_held() -> std::io::Result<()> {
    let server = Server::start().await;
    let relay = Relay::to(&server);
    let (mut one, mut two) = (through(&relay).await?, through(&relay).await?);
    let key = format!("{}n", server.prefix());

    relay.conn(0).hold(Direction::ToClient);
    assert!(silent(&mut one, &["INCR", &key]).await);
    assert_eq!(two.call(&["GET", &key]).await.int(), 1, "the command went through, its reply did not");
    relay.conn(0).let_go();
    assert_eq!(one.next().await.int(), 1);

    relay.conn(0).hold(Direction::ToServer);
    assert!(silent(&mut one, &["INCR", &key]).await);
    assert_eq!(two.call(&["GET", &key]).await.int(), 1, "the command did not go through");
    relay.let_go();
    assert_eq!(one.next().await.int(), 2);
    Ok(())
}

#[tokio::test]
async fn what_is_held_when_a_connection_is_cut_never_arrives() -> std::io::Result<()> {
    let server = Server::start().await;
    let relay = Relay::to(&server);
    let (mut one, mut two) = (through(&relay).await?, through(&relay).await?);
    let key = format!("{}n", server.prefix());

    relay.conn(0).hold(Direction::ToServer);
    assert!(silent(&mut one, &["INCR", &key]).await);
    relay.conn(0).cut();
    assert!(one.try_next().await.is_err());
    relay.let_go();
    assert!(two.call(&["GET", &key]).await.is_nil());
    let numbers = relay.conns().iter().map(leasehold_testkit::Conn::number).collect::<Vec<_>>();
    assert_eq!(numbers, [1]);
    Ok(())
}

#[tokio::test]
async fn a_hold_is_in_force_for_connections_to_come() -> std::io::Result<()> {
    let server = Server::start().await;
    let relay = Relay::to(&server);
    relay.hold(Direction::Both);
    let held = tokio::time::timeout(Duration::from_millis(100), through(&relay)).await;
    assert!(held.is_err(), "a login went through");
    relay.let_go();
    through(&relay).await?;
    Ok(())
}

#[tokio::test]
async fn refusing_spares_open_connections_and_cutting_ends_them() -> std::io::Result<()> {
    let server = Server::start().await;
    let relay = Relay::to(&server);
    let mut one = through(&relay).await?;
    relay.refuse();
    assert!(through(&relay).await.is_err());
    assert_eq!(one.call(&["PING"]).await.text(), "PONG");
    relay.accept();
    through(&relay).await?;
    assert_eq!(relay.accepted(), 2);
    relay.cut();
    assert!(one.try_call(&["PING"]).await.is_err());
    eventually("nothing is open", Duration::from_secs(1), async || relay.conns().is_empty()).await;
    Ok(())
}

#[tokio::test]
async fn a_connection_is_found_by_what_the_server_says_of_it() -> std::io::Result<()> {
    let server = Server::own().await;
    let relay = Relay::to(&server);
    let (_one, mut two) = (through(&relay).await?, through(&relay).await?);
    two.call(&["SUBSCRIBE", &format!("{}push:a", server.prefix())]).await;
    let push = relay.conn_of(&mut server.admin().await, "sub=1").await;
    assert_eq!(push.map(|conn| conn.number()), Some(1));
    Ok(())
}

#[tokio::test]
async fn commands_are_counted() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let before = stats(&mut admin).await;
    admin.call(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "t:n"]).await;
    let ran = stats(&mut admin).await - before;
    assert_eq!((ran.scripts(), ran.of("eval"), ran.of("incr"), ran.of("get")), (1, 1, 1, 0));
}
