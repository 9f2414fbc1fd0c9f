//! A relay's thread: takes connections, and orders.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;

use super::Shared;
use super::conn::carry;

/// What a relay tells its thread; done when the sender inside is dropped.
pub(super) enum Order {
    Refuse(mpsc::Sender<()>),
    Accept(mpsc::Sender<()>),
    End,
}

pub(super) fn run(
    shared: &Arc<Shared>,
    listener: std::net::TcpListener,
    address: SocketAddr,
    orders: UnboundedReceiver<Order>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime for a relay: {error}"));
    runtime.block_on(serve(shared, listener, address, orders));
    // Dropping the runtime drops every connection with it.
}

async fn serve(
    shared: &Arc<Shared>,
    listener: std::net::TcpListener,
    address: SocketAddr,
    mut orders: UnboundedReceiver<Order>,
) {
    let listener = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
    let mut listener = Some(listener.unwrap_or_else(|error| panic!("a relay cannot listen: {error}")));
    loop {
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            order = orders.recv() => match order {
                // The sender goes with the arm: that is the answer.
                Some(Order::Refuse(_done)) => listener = None,
                Some(Order::Accept(_done)) => if listener.is_none() {
                    listener = Some(listen_again(address).await);
                },
                Some(Order::End) | None => return,
            },
            Ok((client, _)) = accepted => {
                let conn = shared.enter(&client);
                let target = shared.target.clone();
                tokio::spawn(async move { carry(&conn, client, &target).await });
            }
        }
    }
}

async fn listen_again(address: SocketAddr) -> TcpListener {
    let start = Instant::now();
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(5), "{address}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
