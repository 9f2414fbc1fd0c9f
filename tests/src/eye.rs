//! What a user who may see everything can say about locks: who holds, who waits, what is left.

use std::time::{Duration, Instant};

use leasehold_testkit::{Admin, Server, Stats, keys, patience, stats};

/// An eye on one server's locks.
pub struct Eye {
    /// For whatever else a test asks or does.
    pub admin: Admin,
    prefix: String,
}

impl Eye {
    /// A new one, over a connection of its own.
    pub async fn on(server: &Server) -> Self {
        Self { admin: server.admin().await, prefix: server.prefix().to_owned() }
    }

    /// The key of a lock.
    #[must_use]
    pub fn key(&self, lock: &str) -> String {
        format!("{}{lock}", self.prefix)
    }

    /// A side key of a lock: `queue`, `waiters` or `fence`.
    #[must_use]
    pub fn side(&self, lock: &str, what: &str) -> String {
        format!("{{{}{lock}}}:{what}", self.prefix)
    }

    /// How many owners are in the lock's queue.
    pub async fn queued(&mut self, lock: &str) -> usize {
        let queue = self.side(lock, "queue");
        usize::try_from(self.admin.call(&["ZCARD", &queue]).await.int()).unwrap_or(0)
    }

    /// Returns when the lock's queue is so long.
    ///
    /// # Panics
    ///
    /// When it is not for 20 s.
    pub async fn queue_is(&mut self, lock: &str, long: usize) {
        let begun = Instant::now();
        let mut now = self.queued(lock).await;
        while now != long {
            assert!(begun.elapsed() < patience(Duration::from_secs(20)), "{now} wait for {lock}, not {long}");
            tokio::task::yield_now().await;
            now = self.queued(lock).await;
        }
    }

    /// The holder's owner id.
    pub async fn holder(&mut self, lock: &str) -> Option<String> {
        let key = self.key(lock);
        let owner = self.admin.call(&["HGET", &key, "owner"]).await.maybe_text()?;
        Some(owner.trim_start_matches('o').to_owned())
    }

    /// What the server still gives a key, in ms; -1 for no expiry, -2 for no key.
    pub async fn pttl(&mut self, key: &str) -> i64 {
        self.admin.call(&["PTTL", key]).await.int()
    }

    /// Counts of commands so far.
    pub async fn stats(&mut self) -> Stats {
        stats(&mut self.admin).await
    }

    /// Channels with a subscriber.
    pub async fn channels(&mut self) -> Vec<String> {
        self.admin.call(&["PUBSUB", "CHANNELS"]).await.texts()
    }

    /// The library's connections, as `CLIENT LIST` shows them.
    pub async fn connections(&mut self) -> Vec<String> {
        let list = self.admin.call(&["CLIENT", "LIST"]).await.text();
        list.lines().filter(|line| !line.contains(" user=testkit ")).map(str::to_owned).collect()
    }

    /// Everything that a lock in use or a failed clean-up has, and a lock at rest has not: holders,
    /// queues, wishes of waiters, and side keys without an expiry.
    pub async fn left(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        for key in keys(&mut self.admin).await {
            if key.ends_with(":fence") || key.ends_with(":waiters") {
                let pttl = self.pttl(&key).await;
                if pttl == -1 {
                    left.push(format!("{key} without expiry"));
                }
            } else {
                left.push(key.clone());
            }
            if key.ends_with(":waiters") {
                let fields = self.admin.call(&["HKEYS", &key]).await.texts();
                let wishes = fields.into_iter().filter(|field| field.starts_with("w:"));
                left.extend(wishes.map(|wish| format!("{key} {wish}")));
            }
        }
        left
    }

    /// Returns when no lock is held, waited for or owed.
    ///
    /// # Panics
    ///
    /// When something is left after `bound`, with what it is.
    pub async fn nothing_left(&mut self, bound: Duration) {
        let begun = Instant::now();
        loop {
            let left = self.left().await;
            if left.is_empty() {
                return;
            }
            assert!(begun.elapsed() < patience(bound), "left behind after {bound:?}: {left:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
