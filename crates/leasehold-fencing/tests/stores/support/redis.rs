//! A fred client on a test server.

use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::Builder;
use fred::types::config::{Config, ReconnectPolicy};
use leasehold_testkit::Server;

pub(crate) async fn client(server: &Server) -> Client {
    client_at(&server.open_url()).await
}

/// With fred's own defaults where they matter: it would send a command three times.
pub(crate) async fn client_at(url: &str) -> Client {
    let mut builder = Builder::from_config(Config::from_url(url).unwrap());
    builder.set_policy(ReconnectPolicy::new_constant(0, 20));
    builder.with_connection_config(|connection| connection.connection_timeout = Duration::from_secs(5));
    let client = builder.build().unwrap();
    client.init().await.unwrap();
    client
}
