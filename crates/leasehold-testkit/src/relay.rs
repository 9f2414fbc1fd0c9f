//! A plain TCP relay in front of a server. It knows nothing of what passes.

mod conn;
mod serve;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use self::conn::Gate;
pub use self::conn::{Conn, Direction};
use self::serve::{Order, run};
use crate::admin::Admin;
use crate::port::free;
use crate::server::Server;

/// A relay; its connections and its port end when it is dropped.
///
/// It runs in a thread of its own: a test that blocks its runtime, or has none, does not stop it. What
/// [`Relay::hold`], [`Relay::cut`] and [`Relay::refuse`] say is in force when they return.
pub struct Relay {
    address: SocketAddr,
    url: String,
    user: String,
    shared: Arc<Shared>,
    orders: UnboundedSender<Order>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    target: String,
    book: Mutex<Book>,
}

/// Every connection ever accepted, in order, and how the next one starts.
#[derive(Default)]
struct Book {
    conns: Vec<Conn>,
    next: Gate,
}

impl Relay {
    /// A relay in front of `server`.
    ///
    /// # Panics
    /// When it cannot listen.
    #[must_use]
    pub fn to(server: &Server) -> Self {
        let mut relay = Self::to_address(server.address());
        server.user().clone_into(&mut relay.user);
        relay.url = server.url_through(&relay.address());
        relay
    }

    /// A relay in front of any address.
    ///
    /// # Panics
    /// When it cannot listen.
    #[must_use]
    pub fn to_address(target: &str) -> Self {
        let (listener, address) = loop {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free()));
            if let Ok(listener) = std::net::TcpListener::bind(address) {
                break (listener, address);
            }
        };
        let shared = Arc::new(Shared { target: target.to_owned(), book: Mutex::default() });
        let (orders, received) = unbounded_channel();
        let (runs, thread) = (Arc::clone(&shared), std::thread::Builder::new().name("relay".into()));
        let thread = thread.spawn(move || run(&runs, listener, address, received));
        let thread = thread.unwrap_or_else(|error| panic!("no thread for a relay: {error}"));
        Self {
            address,
            url: format!("redis://{address}"),
            user: "default".to_owned(),
            shared,
            orders,
            thread: Some(thread),
        }
    }

    /// As [`Server::url`], through this relay.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Host and port of the relay.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Closes all connections, now. New ones are taken.
    pub fn cut(&self) {
        for conn in self.conns() {
            conn.cut();
        }
    }

    /// Stops passing bytes in that direction, on every connection of now and later. Nothing is lost: what
    /// is under way arrives after [`Relay::let_go`].
    pub fn hold(&self, direction: Direction) {
        self.turn(direction, true);
    }

    /// Passes bytes again, in both directions and on every connection.
    pub fn let_go(&self) {
        self.turn(Direction::Both, false);
    }

    fn turn(&self, direction: Direction, held: bool) {
        let mut book = self.shared.book();
        book.next.turn(direction, held);
        for conn in &book.conns {
            conn.turn(direction, held);
        }
    }

    /// Refuses new connections; those that are open stay.
    pub fn refuse(&self) {
        self.order(Order::Refuse);
    }

    /// Takes new connections again.
    pub fn accept(&self) {
        self.order(Order::Accept);
    }

    fn order(&self, order: impl FnOnce(mpsc::Sender<()>) -> Order) {
        let (done, wait) = mpsc::channel();
        // Both fail only when the relay's thread has panicked, whose message is on the screen.
        let _told = self.orders.send(order(done));
        let _heard = wait.recv();
    }

    /// How many connections were ever accepted.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.shared.book().conns.len()
    }

    /// The connections that are open, in the order in which they were accepted.
    #[must_use]
    pub fn conns(&self) -> Vec<Conn> {
        self.shared.book().conns.iter().filter(|conn| conn.is_open()).cloned().collect()
    }

    /// The open connection whose line in `CLIENT LIST` has the field `mark`: `sub=1` finds a subscriber,
    /// `name=x` a named one. The first of several.
    ///
    /// Where an engine's own proxy stands between (a container), the server sees other addresses than the
    /// relay. Then the n-th connection of this relay is the n-th of the library's user, provided that both
    /// count the same: the user connects through this relay alone.
    pub async fn conn_of(&self, admin: &mut Admin, mark: &str) -> Option<Conn> {
        let list = admin.call(&["CLIENT", "LIST"]).await.text();
        let field = |line: &'_ str, name: &str| -> String {
            line.split(' ').find_map(|field| field.strip_prefix(name)).unwrap_or_default().to_owned()
        };
        let conns = self.conns();
        let at = |line: &str| {
            let address = field(line, "addr=").parse().ok();
            address.and_then(|end| conns.iter().find(|conn| conn.server_side() == Some(end)))
        };
        // The server lists its clients in the order in which they came.
        let ours = list.lines().filter(|line| at(line).is_some() || field(line, "user=") == self.user);
        let ours = ours.collect::<Vec<_>>();
        let (nth, line) =
            ours.iter().enumerate().find(|(_, line)| line.split(' ').any(|have| have == mark))?;
        at(line).or_else(|| conns.get(nth).filter(|_| conns.len() == ours.len())).cloned()
    }

    /// The `nth` connection that was accepted, from 0; open or not.
    ///
    /// # Panics
    /// When there were not so many.
    #[must_use]
    pub fn conn(&self, nth: usize) -> Conn {
        let book = self.shared.book();
        book.conns.get(nth).unwrap_or_else(|| panic!("{} connections, no {nth}th", book.conns.len())).clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _told = self.orders.send(Order::End);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

impl Shared {
    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, client: &TcpStream) -> Conn {
        let mut book = self.book();
        let conn = Conn::new(book.conns.len(), client.peer_addr().ok(), book.next);
        book.conns.push(conn.clone());
        conn
    }
}
