//! One script, sent once.

use std::time::Duration;

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::ClientLike;
use fred::types::config::Options;
use fred::types::{ClusterHash, CustomCommand, Value};

pub(crate) struct Script {
    text: String,
    sha: String,
}

impl Script {
    pub(crate) fn new(text: String) -> Self {
        let sha = sha1_smol::Sha1::from(&text).digest().to_string();
        Self { text, sha }
    }

    /// Sends it, with its text if the server does not know it. A reply that does not come is an error
    /// and no reason to send again: the script may have run, and not every command bears a second run.
    pub(crate) async fn call(
        &self,
        client: &Client,
        within: Duration,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> Result<Value, Error> {
        match send(client, "EVALSHA", &self.sha, within, keys, arguments).await {
            Err(error) if error.details().starts_with("NOSCRIPT") => {
                send(client, "EVAL", &self.text, within, keys, arguments).await
            }
            answer => answer,
        }
    }
}

/// By `custom`: fred drops the options of its own script calls, and would send them three times.
async fn send(
    client: &Client,
    command: &'static str,
    script: &str,
    within: Duration,
    keys: &[&[u8]],
    arguments: &[&[u8]],
) -> Result<Value, Error> {
    let mut words: Vec<Value> = Vec::with_capacity(2 + keys.len() + arguments.len());
    words.push(script.into());
    words.push(keys.len().to_string().into());
    words.extend(keys.iter().chain(arguments).map(|&word| Value::from(word)));
    // Behind the script and the number of keys stands the first key.
    let command = CustomCommand::new_static(command, ClusterHash::Offset(2), false);
    client.with_options(&once(within)).custom(command, words).await
}

/// fred's own `get` is behind a feature that would be everybody's.
#[cfg(feature = "issue")]
pub(crate) async fn get(client: &Client, within: Duration, key: &str) -> Result<Value, Error> {
    let command = CustomCommand::new_static("GET", ClusterHash::FirstKey, false);
    client.with_options(&once(within)).custom(command, vec![key]).await
}

fn once(within: Duration) -> Options {
    Options {
        max_attempts: Some(1),
        // Zero would mean no limit at all.
        timeout: Some(within.max(Duration::from_millis(1))),
        ..Options::default()
    }
}
