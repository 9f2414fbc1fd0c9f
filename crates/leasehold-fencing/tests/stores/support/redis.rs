//! A fred client on a test server.

use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::Builder;
use fred::types::config::{Config, ReconnectPolicy};
use leasehold_testkit::Server;

pub(crate) async fn client(server: &Server) -> Client {
    let config = Config::from_url(&server.open_url()).unwrap();
    let mut builder = Builder::from_config(config);
    builder.set_policy(ReconnectPolicy::new_constant(0, 20));
    builder.with_connection_config(|connection| {
        connection.connection_timeout = Duration::from_secs(5);
        connection.max_command_attempts = 1;
    });
    let client = builder.build().unwrap();
    client.init().await.unwrap();
    client
}
