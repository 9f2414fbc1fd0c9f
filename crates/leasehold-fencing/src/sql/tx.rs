//! A transaction whose first statement was the guard.

use std::fmt;
use std::ops::{Deref, DerefMut};

use sqlx::{Error, Transaction};

use super::{Dialect, SqlClaim};

/// A transaction of one holder: until it ends, no newer holder can claim the resource, and so none can
/// read.
///
/// It derefs to the connection, so `&mut *tx` runs statements as on sqlx's own transaction. Dropping it
/// rolls back; the claim stays.
///
/// # A zombie inside an open transaction
///
/// A holder that stops here (a long pause, a lost network) endangers nothing: it has the mark's row
/// locked, so its successor's claim waits, and sees what it commits. But the successor *waits*. Bound
/// it in the database, where no client has to be alive:
///
/// | database | setting | what for |
/// |---|---|---|
/// | PostgreSQL | `idle_in_transaction_session_timeout` | ends the transaction of a holder that sent nothing more |
/// | PostgreSQL | `statement_timeout` | ends a statement that runs on behind a dead holder |
/// | PostgreSQL | `tcp_user_timeout`, `tcp_keepalives_idle` | notices a network that is gone |
/// | PostgreSQL | `lock_timeout` | how long the successor waits before it hears of it |
/// | MariaDB | `idle_write_transaction_timeout` | as the first |
/// | MySQL | `wait_timeout` | as the first, for whole sessions |
/// | MySQL, MariaDB | `innodb_lock_wait_timeout` | how long the successor waits (50 s by default) |
/// | SQLite | `busy_timeout` | how long the successor waits; a zombie ends with its process |
///
/// The lease is a good value for the first two, and
/// [`PgFence::begin_within`](super::SqlFence::begin_within) sets them to what remains of it.
#[must_use = "a transaction that is dropped is rolled back"]
pub struct FencedTx<DB: Dialect> {
    tx: Transaction<'static, DB>,
    claim: SqlClaim<DB>,
}

impl<DB: Dialect> FencedTx<DB> {
    pub(super) fn new(tx: Transaction<'static, DB>, claim: SqlClaim<DB>) -> Self {
        Self { tx, claim }
    }

    /// The claim that this transaction was opened under: the way to the next one of the same hold.
    #[must_use]
    pub fn claim(&self) -> &SqlClaim<DB> {
        &self.claim
    }

    /// Commits.
    ///
    /// # Errors
    ///
    /// The database's. After a lost connection it is unknown whether the commit happened; fencing does
    /// not change that.
    pub async fn commit(self) -> Result<(), Error> {
        self.tx.commit().await
    }

    /// Rolls back. The claim stays.
    ///
    /// # Errors
    ///
    /// The database's.
    pub async fn rollback(self) -> Result<(), Error> {
        self.tx.rollback().await
    }
}

impl<DB: Dialect> Deref for FencedTx<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.tx
    }
}

impl<DB: Dialect> DerefMut for FencedTx<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.tx
    }
}

impl<DB: Dialect> fmt::Debug for FencedTx<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedTx").field("claim", &self.claim).finish_non_exhaustive()
    }
}
