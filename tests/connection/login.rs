//! The ways in: passwords, TLS, Unix sockets, URLs, a client of one's own. And what no text tells.

use fred::types::Builder as FredBuilder;
use fred::types::config::Config;
use leasehold::{Client, ErrorKind, Outcome, Phase};
use leasehold_testkit::{Relay, Server};
use leasehold_tests::{options, take};

use crate::support::{SOON, ms};

const SECRET: &str = "hunter2/s3cret@: é'\"\\";
/// The same, as a URL writes it.
const ESCAPED: &str = "hunter2%2Fs3cret%40%3A%20%C3%A9%27%22%5C";

async fn works(client: &Client) {
    let lock = client.lock("a").unwrap();
    let guard = take(&lock).await;
    let waiter = tokio::spawn(async move { lock.acquire().await.unwrap() });
    crate::support::until_waiting(&client.lock("a").unwrap(), 1).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    let next = tokio::time::timeout(SOON, waiter).await.expect("pushed").unwrap();
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn must_10_a_server_that_wants_a_password_right_wrong_and_none() {
    let server = Server::builder().password(SECRET).start().await;
    works(&options(&server).connect().await.unwrap()).await;
    let bare = format!("redis://{}", server.address());
    let prefix = server.prefix();
    works(&Client::builder(&bare).prefix(prefix).credentials("", SECRET).connect().await.unwrap()).await;
    works(&Client::builder(&bare).prefix(prefix).credentials("default", SECRET).connect().await.unwrap())
        .await;
    // The builder's word counts more than the URL's.
    let url = format!("redis://:wrong@{}", server.address());
    works(&Client::builder(&url).prefix(prefix).credentials("", SECRET).connect().await.unwrap()).await;

    let wrong = format!("redis://:not-{ESCAPED}@{}", server.address());
    let unknown = format!("redis://nobody:{ESCAPED}@{}", server.address());
    for (what, url) in [("wrong", wrong), ("unknown user", unknown), ("none", bare)] {
        let tried = tokio::time::timeout(SOON, Client::connect(&url)).await.expect("it says so at once");
        let error = match tried {
            Err(error) => error,
            // A server tells who is not logged in at the first command.
            Ok(client) => client.lock("a").unwrap().try_acquire().await.unwrap_err(),
        };
        assert_eq!(error.kind(), ErrorKind::Denied, "{what}: {error}");
        assert!(!error.may_have_changed_server(), "{what}: {error}");
        assert_eq!(error.address(), Some(server.address()), "{what}");
        no_secret(&format!("{error} {error:?}"));
    }
}

#[track_caller]
fn no_secret(text: &str) {
    for secret in [SECRET, ESCAPED, "hunter2", "s3cret"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[tokio::test]
async fn no_debug_text_and_no_error_tells_the_password() {
    let server = Server::builder().password(SECRET).start().await;
    let relay = Relay::to(&server);
    let url = relay.url();
    assert!(url.contains("hunter2"), "the secret is there to be told");
    let builder = Client::builder(&url).prefix(server.prefix()).command_timeout(ms(100));
    no_secret(&format!("{builder:?}"));
    let client = builder.connect().await.unwrap();
    let lock = client.lock("a").unwrap();
    let guard = take(&lock).await;
    no_secret(&format!("{client:?} {lock:?} {guard:?} {:?} {:?}", guard.held(), guard.owner()));
    no_secret(&format!("{:?} {:?}", lock.inspect().await.unwrap(), lock.try_acquire().await.unwrap()));
    no_secret(client.address());

    relay.hold(leasehold_testkit::Direction::Both);
    let late = lock.try_acquire().await.unwrap_err();
    no_secret(&format!("{late} {late:?}"));
    relay.refuse();
    relay.cut();
    let down = lock.try_acquire().await.unwrap_err();
    no_secret(&format!("{down} {down:?}"));
    let refused = Client::connect(&url).await.unwrap_err();
    no_secret(&format!("{refused} {refused:?}"));
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");

    for url in [
        format!("redis://u:{ESCAPED}@host:port"),
        format!("redis://u:{SECRET}@host"),
        format!("redis://u:{ESCAPED}@host/database"),
        format!("redis://u:{ESCAPED}@"),
        format!("redis-cluster://u:{ESCAPED}@host"),
        format!("http://u:{ESCAPED}@host"),
        format!("redis://u:{ESCAPED}@no-such-host.invalid"),
        ESCAPED.to_owned(),
    ] {
        let builder = Client::builder(&url);
        no_secret(&format!("{builder:?}"));
        let error = builder.connect().await.unwrap_err();
        no_secret(&format!("{error} {error:?}"));
    }
    let fred = FredBuilder::from_config(Config::from_url(&url).unwrap()).build().unwrap();
    no_secret(&format!("{:?}", Client::builder_from_fred(&fred)));
}

#[tokio::test]
async fn must_10_tls_with_a_self_signed_authority_trusted_and_not() {
    let server = Server::builder().tls().start().await;
    let authority = server.authority().unwrap();
    works(&options(&server).authorities(authority.as_bytes()).connect().await.unwrap()).await;
    let other_scheme = server.url().replacen("rediss://", "valkeys://", 1);
    let client = Client::builder(&other_scheme).prefix(server.prefix()).authorities(authority.as_bytes());
    works(&client.connect().await.unwrap()).await;

    let other = Server::builder().tls().start().await;
    let strangers = other.authority().unwrap();
    for (what, builder) in [
        ("the system's authorities", options(&server)),
        ("another authority", options(&server).authorities(strangers.as_bytes())),
    ] {
        let tried = tokio::time::timeout(SOON, builder.connect()).await.expect("it fails, and at once");
        let error = tried.expect_err(what);
        assert_eq!(error.phase(), Some(Phase::Connect), "{what}: {error}");
        assert!(error.to_string().to_lowercase().contains("certificate"), "{what}: {error}");
        assert!(!error.may_have_changed_server(), "{what}: {error}");
    }
    let error = options(&server).authorities(b"no certificate").connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn plain_text_to_a_tls_port_is_an_error_and_not_a_hang() {
    let server = Server::builder().tls().start().await;
    let url = server.url().replacen("rediss://", "redis://", 1);
    let builder = Client::builder(&url).connect_timeout(ms(500));
    let error = tokio::time::timeout(SOON, builder.connect()).await.expect("an error").unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut | ErrorKind::Protocol),
        "{error}"
    );
    assert_eq!(error.address(), Some(server.address()));
}

#[tokio::test]
async fn a_unix_socket_by_url_and_by_path() {
    let server = Server::builder().unix().start().await;
    let url = server.url();
    assert!(url.starts_with("redis+unix://"), "{url}");
    let client = options(&server).connect().await.unwrap();
    works(&client).await;
    let path = client.address().to_owned();
    assert!(path.starts_with('/'), "an address for people: {path}");
    let (_, rest) = url.split_once("://").unwrap();
    let (login, _) = rest.split_once('@').unwrap();
    let (user, password) = login.split_once(':').unwrap();
    for url in [path.clone(), format!("unix://{path}"), format!("valkey+unix://{path}")] {
        let builder = Client::builder(&url).prefix(server.prefix()).credentials(user, password);
        let client = builder.connect().await.unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(client.address(), path, "{url}");
        works(&client).await;
    }
    let error = Client::connect("/no/such/socket").await.unwrap_err();
    assert_eq!((error.kind(), error.address()), (ErrorKind::Unavailable, Some("/no/such/socket")), "{error}");
}

#[tokio::test]
async fn urls_of_both_families_work_and_those_of_later_kinds_are_refused_by_name() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let url = server.url();
    works(&Client::builder(&url.replacen("redis", "valkey", 1)).prefix("t:").connect().await.unwrap()).await;
    let third = Client::builder(&format!("{url}/3")).prefix("t:").connect().await.unwrap();
    let guard = take(&third.lock("a").unwrap()).await;
    assert_eq!(admin.call(&["EXISTS", "t:a"]).await.int(), 0);
    assert_eq!(admin.call(&["SELECT", "3"]).await.error(), None);
    assert_eq!(admin.call(&["EXISTS", "t:a"]).await.int(), 1, "the database of the URL");
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    works(&third).await;

    let relay = Relay::to(&server);
    let address = relay.address();
    for (url, word) in [
        (format!("redis-cluster://{address}"), "cluster"),
        (format!("valkeys-cluster://{address}"), "cluster"),
        (format!("redis-sentinel://{address}?sentinelServiceName=x"), "Sentinel"),
        (format!("http://{address}"), "unknown scheme"),
        (address.clone(), "no scheme"),
        (format!("redis://{address}/database"), "database"),
        ("redis+unix://".to_owned(), "socket"),
    ] {
        let error = Client::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error}");
        assert!(error.to_string().contains(word), "{url}: {error}");
    }
    assert_eq!(relay.accepted(), 0, "nothing was sent");
}

#[tokio::test]
async fn a_configured_fred_client_is_read_and_left_alone() {
    let server = Server::own().await;
    let relay = Relay::to(&server);
    let fred = FredBuilder::from_config(Config::from_url(&relay.url()).unwrap()).build().unwrap();
    let client = Client::builder_from_fred(&fred).prefix(server.prefix()).connect().await.unwrap();
    works(&client).await;
    assert_eq!(client.address(), relay.address());
    assert_eq!(relay.accepted(), 2, "for commands and for pushes: our own; theirs need not be connected");
    client.close_within(SOON).await;
    assert!(!matches!(fred::interfaces::ClientLike::state(&fred), fred::types::ClientState::Connected));

    let cluster = Config::from_url(&format!("redis-cluster://{}", relay.address())).unwrap();
    let fred = FredBuilder::from_config(cluster).build().unwrap();
    let error = Client::builder_from_fred(&fred).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("cluster"), "{error}");
}

/// The URL says nothing of it; the server does.
#[tokio::test]
async fn a_clusters_node_and_a_database_that_is_not_there_are_refused_by_name() {
    let server = Server::builder().arg("cluster-enabled", "yes").start().await;
    let error = options(&server).connect().await.unwrap_err();
    assert_eq!((error.kind(), error.phase()), (ErrorKind::Invalid, Some(Phase::Connect)), "{error}");
    assert!(error.to_string().contains("a cluster's node"), "{error}");
    assert!(!error.may_have_changed_server());

    let server = Server::start().await;
    let error = Client::connect(&format!("{}/77", server.url())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("DB index"), "{error}");
}
