//! Futures that are dropped, at every point, and replies that never come: nothing is left.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says by a panic what went wrong")]

mod after_close;
mod polls;
mod releases;
mod replies;
mod storm;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use leasehold::Client;
use leasehold_testkit::{Relay, Server, eventually};
use tokio::runtime::Handle;

/// For what is undone by a command; far below the lease of 30 s, whose end would hide that it was not.
const SOON: Duration = Duration::from_secs(10);

/// When a future is dropped.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// As soon as its last poll is over: what it sent is on its way.
    AtOnce,
    /// When it is woken again: the news is there, and never read.
    WhenWoken,
}

/// Polls a future up to `polls` times and drops it then. `None`: it was dropped.
async fn poll_up_to<F: Future>(polls: usize, cut: Cut, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut done = 0;
    poll_fn(|context| {
        if done == polls {
            return Poll::Ready(None);
        }
        done += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if done == polls && matches!(cut, Cut::AtOnce) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// This runtime's tasks, after those that are about to end.
async fn tasks_are(before: usize) {
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let what = format!("{before} tasks and not more, but there are {}", tasks());
    eventually(&what, SOON, async || tasks() <= before).await;
}

/// A client behind a relay.
async fn relayed(server: &Server, command_timeout: Duration) -> (Relay, Client) {
    let relay = Relay::to(server);
    let options = Client::builder(&relay.url()).prefix(server.prefix());
    let client = options.command_timeout(command_timeout).connect().await.unwrap();
    (relay, client)
}
