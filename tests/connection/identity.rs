//! Who a client is to those who look at the server.

use leasehold::{Client, Outcome};
use leasehold_testkit::{Admin, Server, eventually};
use leasehold_tests::{client, options, take};

use crate::support::{SOON, until_taken, until_waiting};

/// The names in `CLIENT LIST` of connections that have one.
async fn names(admin: &mut Admin) -> Vec<String> {
    let list = admin.call(&["CLIENT", "LIST"]).await.text();
    let mut names: Vec<_> = list
        .lines()
        .filter_map(|line| line.split(' ').find_map(|word| word.strip_prefix("name=")))
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

/// Opens the push connection: by a wait.
async fn wait_once(client: &Client) {
    let guard = take(&client.lock("warm").unwrap()).await;
    let lock = client.lock("warm").unwrap();
    let waiter = tokio::spawn(async move { lock.acquire().await.unwrap() });
    until_waiting(&client.lock("warm").unwrap(), 1).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    drop(waiter.await.unwrap());
}

#[tokio::test]
async fn both_connections_are_named_in_client_list() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = options(&server).label("web-3").connect().await.unwrap();
    assert_eq!(names(&mut admin).await, ["leasehold-web-3"]);
    wait_once(&client).await;
    assert_eq!(names(&mut admin).await, ["leasehold-web-3", "leasehold-web-3"]);
    client.close_within(SOON).await;
    eventually("they are gone", SOON, async || names(&mut admin).await.is_empty()).await;
}

#[tokio::test]
async fn a_label_that_the_server_would_refuse_is_made_plain() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let _spaced = options(&server).label("night job é").connect().await.unwrap();
    assert_eq!(names(&mut admin).await, ["leasehold-night-job--"]);
}

#[tokio::test]
async fn clients_without_a_label_have_names_that_differ() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let clients = [client(&server).await, client(&server).await];
    let names = names(&mut admin).await;
    assert!(names.iter().all(|name| name.starts_with("leasehold-")), "{names:?}");
    assert!(names.len() == 2 && names[0] != names[1], "{names:?}");
    // The name leads to the owner ids.
    let guard = take(&clients[0].lock("a").unwrap()).await;
    let uuid = guard.owner_id().replace('-', "");
    assert!(names.iter().any(|name| uuid.starts_with(&name["leasehold-".len()..])), "{names:?} {uuid}");
}

#[tokio::test]
async fn a_new_connection_is_named_again() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = options(&server).label("web-3").connect().await.unwrap();
    wait_once(&client).await;
    admin.call(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    admin.call(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    drop(until_taken(&client.lock("a").unwrap()).await);
    eventually("both are back under their name", SOON, async || {
        names(&mut admin).await == ["leasehold-web-3", "leasehold-web-3"]
    })
    .await;
}

#[tokio::test]
async fn a_dropped_client_leaves_no_connection_and_keeps_its_last_release() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = options(&server).label("web-3").connect().await.unwrap();
    wait_once(&client).await;
    let guard = take(&client.lock("a").unwrap()).await;
    drop(client);
    assert!(guard.confirm().await.is_ok(), "a guard keeps its client");
    drop(guard);
    eventually("no connection", SOON, async || names(&mut admin).await.is_empty()).await;
    assert_eq!(admin.call(&["EXISTS", "t:a"]).await.int(), 0, "released before it went");
}
