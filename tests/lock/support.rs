//! What these tests ask a server behind the library's back.

use std::time::Duration;

use leasehold::{Attempt, Busy, Held, Lock, LostReason, SeenHold};
use leasehold_testkit::{Admin, Server, eventually};

/// Far longer than anything here takes, far shorter than the default lease.
pub(crate) const SOON: Duration = Duration::from_secs(8);

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The holder's record of the lock `name`.
pub(crate) fn key(server: &Server, name: &str) -> String {
    format!("{}{name}", server.prefix())
}

/// Milliseconds until `key` ends; -1: never, -2: it is not there.
pub(crate) async fn pttl(admin: &mut Admin, key: &str) -> i64 {
    admin.call(&["PTTL", key]).await.int()
}

pub(crate) async fn exists(admin: &mut Admin, key: &str) -> bool {
    admin.call(&["EXISTS", key]).await.int() == 1
}

/// The holder's record, field by field.
pub(crate) async fn record(admin: &mut Admin, key: &str) -> Vec<(String, String)> {
    let mut pairs = admin.call(&["HGETALL", key]).await.pairs();
    pairs.sort();
    pairs
}

/// The hold that stands at the lock.
pub(crate) async fn seen(lock: &Lock) -> SeenHold {
    lock.inspect().await.unwrap().held().expect("a client holds it").clone()
}

pub(crate) async fn busy(lock: &Lock) -> Busy {
    match lock.try_acquire().await.unwrap() {
        Attempt::Busy(busy) => busy,
        Attempt::Acquired(_) => panic!("two holders of {}", lock.name()),
    }
}

pub(crate) async fn until_waiting(lock: &Lock, waiters: u64) {
    eventually("the waiters stand in the queue", SOON, async || {
        lock.inspect().await.unwrap().held().is_some_and(|hold| hold.waiters() == waiters)
    })
    .await;
}

pub(crate) async fn until_free(lock: &Lock) {
    eventually("the lock is free", SOON, async || lock.inspect().await.unwrap().is_free()).await;
}

/// Why the hold is lost: told, or a failure.
pub(crate) async fn loss_of(hold: &Held) -> LostReason {
    tokio::time::timeout(SOON, hold.lost()).await.expect("the loss is told")
}
