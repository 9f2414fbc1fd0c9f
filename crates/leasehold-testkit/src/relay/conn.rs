//! One connection through a relay, and the gate that its bytes pass.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Which bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server: commands.
    ToServer,
    /// From the server to the client: replies and messages.
    ToClient,
    /// Both ways.
    Both,
}

/// What may pass.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gate {
    to_server_held: bool,
    to_client_held: bool,
    closed: bool,
}

impl Gate {
    pub(super) fn turn(&mut self, direction: Direction, held: bool) {
        if direction != Direction::ToClient {
            self.to_server_held = held;
        }
        if direction != Direction::ToServer {
            self.to_client_held = held;
        }
    }

    fn holds(self, direction: Direction) -> bool {
        match direction {
            Direction::ToServer => self.to_server_held,
            Direction::ToClient => self.to_client_held,
            Direction::Both => self.to_server_held && self.to_client_held,
        }
    }
}

/// One connection that a relay accepted; a handle, cheap to clone.
#[derive(Clone, Debug)]
pub struct Conn {
    number: usize,
    client: Option<SocketAddr>,
    server_side: Arc<OnceLock<SocketAddr>>,
    gate: Arc<watch::Sender<Gate>>,
    to_server: Arc<AtomicU64>,
    to_client: Arc<AtomicU64>,
}

impl Conn {
    pub(super) fn new(number: usize, client: Option<SocketAddr>, gate: Gate) -> Self {
        Self {
            number,
            client,
            server_side: Arc::default(),
            gate: Arc::new(watch::Sender::new(gate)),
            to_server: Arc::default(),
            to_client: Arc::default(),
        }
    }

    /// Its place in the order in which connections were accepted, from 0.
    #[must_use]
    pub const fn number(&self) -> usize {
        self.number
    }

    /// The client's end, as the relay sees it.
    #[must_use]
    pub const fn client(&self) -> Option<SocketAddr> {
        self.client
    }

    /// The relay's end, as the server sees it: the `addr` of `CLIENT LIST`. None until it is connected.
    #[must_use]
    pub fn server_side(&self) -> Option<SocketAddr> {
        self.server_side.get().copied()
    }

    /// Whether it still stands.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.gate.borrow().closed
    }

    /// Bytes that went on to the server.
    #[must_use]
    pub fn to_server(&self) -> u64 {
        self.to_server.load(Ordering::Relaxed)
    }

    /// Bytes that went on to the client.
    #[must_use]
    pub fn to_client(&self) -> u64 {
        self.to_client.load(Ordering::Relaxed)
    }

    /// Closes it, now.
    pub fn cut(&self) {
        self.gate.send_modify(|gate| gate.closed = true);
    }

    /// Stops passing bytes in that direction.
    pub fn hold(&self, direction: Direction) {
        self.turn(direction, true);
    }

    /// Passes bytes again, in both directions.
    pub fn let_go(&self) {
        self.turn(Direction::Both, false);
    }

    pub(super) fn turn(&self, direction: Direction, held: bool) {
        self.gate.send_modify(|gate| gate.turn(direction, held));
    }
}

/// Connects to the server and passes bytes until one side ends or the connection is cut.
pub(super) async fn carry(conn: &Conn, client: TcpStream, target: &str) {
    // A failing connection ends like a closed one: for the client it is the same.
    let _over = carry_on(conn, client, target).await;
    conn.cut();
}

async fn carry_on(conn: &Conn, client: TcpStream, target: &str) -> io::Result<()> {
    let mut cut = conn.gate.subscribe();
    let server = tokio::select! {
        server = TcpStream::connect(target) => server?,
        _ = cut.wait_for(|gate| gate.closed) => return Ok(()),
    };
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    // Set once, here.
    let _first = conn.server_side.set(server.local_addr()?);
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    let up = pump(conn, Direction::ToServer, &conn.to_server, client_reads, server_writes);
    let down = pump(conn, Direction::ToClient, &conn.to_client, server_reads, client_writes);
    tokio::select! {
        // One side's end is passed on, and what the other still says is let through.
        ended = async { tokio::try_join!(up, down) } => ended.map(|_| ()),
        _ = cut.wait_for(|gate| gate.closed) => Ok(()),
    }
}

async fn pump(
    conn: &Conn,
    direction: Direction,
    passed: &AtomicU64,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut gate = conn.gate.subscribe();
    let mut bytes = vec![0; 16 * 1024];
    loop {
        opened(&mut gate, direction).await;
        let count = tokio::select! {
            count = from.read(&mut bytes) => count?,
            _ = gate.wait_for(|gate| gate.holds(direction)) => continue,
        };
        if count == 0 {
            return to.shutdown().await;
        }
        // The gate may have closed between the read and here.
        opened(&mut gate, direction).await;
        to.write_all(&bytes[..count]).await?;
        passed.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
    }
}

async fn opened(gate: &mut watch::Receiver<Gate>, direction: Direction) {
    // Fails only when the sender is gone, and `conn` holds it.
    let _open = gate.wait_for(|gate| !gate.holds(direction)).await;
}
