//! The fence: from a token to a transaction.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use sqlx::{Error, Pool, Transaction};

use super::dialect::MAX_NAME_BYTES;
use super::memory::Confirmed;
use super::{Dialect, FencedTx, Isolation};
use crate::scope::Scope;
use crate::{FenceError, Mark, Token, Verdict};

const MAX_COLLISIONS: u32 = 16;

/// A fence around some data in a relational database. Data is reached through [`FencedTx`], and there is
/// no way to one but by a claim.
///
/// Make one for each process and kind of data, and clone it: it remembers which claims the database has
/// confirmed. It needs the table of [`Dialect::MIGRATION`].
///
/// ```
/// # #[cfg(feature = "sqlite")] {
/// use leasehold_fencing::{FenceError, SqliteFence, Token};
///
/// # async fn sell(pool: sqlx::SqlitePool, token: &Token) -> Result<(), FenceError<sqlx::Error>> {
/// let fence = SqliteFence::new("orders");
/// fence.migrate(&pool).await.map_err(FenceError::Store)?;
///
/// let mut tx = fence.begin(&pool, token).await?; // a stale holder stops here
/// let left: i64 = sqlx::query_scalar("SELECT quantity FROM stock WHERE id = 42")
///     .fetch_one(&mut *tx).await.map_err(FenceError::Store)?;
/// sqlx::query("UPDATE stock SET quantity = ? WHERE id = 42")
///     .bind(left - 1).execute(&mut *tx).await.map_err(FenceError::Store)?;
/// tx.commit().await.map_err(FenceError::Store)?;
/// # Ok(())
/// # }
/// # }
/// ```
///
/// # How it works
///
/// 1. *Claim*, once for a hold: raises the mark in a transaction of its own. Inside the data's
///    transaction it would be taken back by a rollback, and what had been read would not be protected
///    any more.
/// 2. *Guard*, first in each transaction: reads the mark and locks it until the end. Only one's own mark
///    will do; a newer holder's claim waits for the end, and its reads see what was committed.
///
/// Statements outside a `FencedTx` are not fenced. Neither is what a transaction does elsewhere.
pub struct SqlFence<DB: Dialect> {
    scope: Scope,
    isolation: Isolation,
    confirmed: Arc<Confirmed>,
    database: PhantomData<fn() -> DB>,
}

impl<DB: Dialect> SqlFence<DB> {
    /// A fence for `scope` and what is below it: `orders` takes tokens of `orders`, `orders:42` and
    /// `orders/42`. If the locks' client has a key prefix, the scope begins with it.
    #[must_use]
    pub fn new(scope: impl Into<Arc<str>>) -> Self {
        Self {
            scope: Scope::new(scope),
            isolation: Isolation::default(),
            confirmed: Arc::default(),
            database: PhantomData,
        }
    }

    /// The isolation level of its transactions. Default: the database's own.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    #[cfg(feature = "postgres")]
    pub(super) fn level(&self) -> Isolation {
        self.isolation
    }

    /// Makes the table of marks, if it is not there.
    ///
    /// # Errors
    ///
    /// The database's.
    pub async fn migrate(&self, pool: &Pool<DB>) -> Result<(), Error> {
        DB::migrate(pool).await
    }

    /// Claims the token's resource, unless this fence has done so before, and opens a transaction.
    ///
    /// # Errors
    ///
    /// [`Stale`](FenceError::Stale) and [`Duplicate`](FenceError::Duplicate) before anything was read;
    /// [`NoClaim`](FenceError::NoClaim) when the database has lost the claim: the next call claims anew,
    /// and what was read before is void.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves at most the claim.
    pub async fn begin(&self, pool: &Pool<DB>, token: &Token) -> Result<FencedTx<DB>, FenceError<Error>> {
        self.claim(pool, token).await?.begin(pool).await
    }

    /// Claims without opening a transaction: for holders that want to be safe from their predecessors
    /// before they have anything to read.
    ///
    /// # Errors
    ///
    /// [`Stale`](FenceError::Stale) and [`Duplicate`](FenceError::Duplicate).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the claim.
    pub async fn claim(&self, pool: &Pool<DB>, token: &Token) -> Result<SqlClaim<DB>, FenceError<Error>> {
        self.scope.check(token)?;
        let length = token.resource().len();
        if length > MAX_NAME_BYTES {
            return Err(FenceError::NameTooLong { length, limit: MAX_NAME_BYTES });
        }
        // A stale token is sent to the database all the same: the refusal names the mark that is there.
        if self.confirmed.check(token) != Verdict::Same {
            self.raise(pool, token).await?;
            self.confirmed.record(token);
        }
        Ok(SqlClaim { fence: self.clone(), token: token.clone() })
    }

    /// At REPEATABLE READ and above a claim may collide with another, and is tried again until one of
    /// the two is seen to have won. Each collision means that somebody's claim got through.
    async fn raise(&self, pool: &Pool<DB>, token: &Token) -> Result<(), FenceError<Error>> {
        for attempt in 1.. {
            match DB::claim(pool, token).await {
                Ok(true) => return Ok(()),
                Ok(false) => return FenceError::unless_claimed(token, self.mark(pool, token).await?),
                Err(error) if DB::is_conflict(&error) && attempt < MAX_COLLISIONS => {}
                Err(error) => return Err(FenceError::Store(error)),
            }
        }
        Ok(())
    }

    /// The committed mark of the token's resource.
    async fn mark(&self, pool: &Pool<DB>, token: &Token) -> Result<Option<Mark>, FenceError<Error>> {
        DB::mark(pool, token.resource()).await.map_err(FenceError::Store)
    }
}

/// The proof that a resource was claimed, and the way to its data. Cheap to clone.
pub struct SqlClaim<DB: Dialect> {
    fence: SqlFence<DB>,
    token: Token,
}

impl<DB: Dialect> SqlClaim<DB> {
    /// The token that was claimed with.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Opens a transaction, with the guard as its first statement. Several may be open at a time.
    ///
    /// # Errors
    ///
    /// As [`SqlFence::begin`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future rolls back.
    pub async fn begin(&self, pool: &Pool<DB>) -> Result<FencedTx<DB>, FenceError<Error>> {
        let tx = DB::begin(pool, self.fence.isolation).await.map_err(FenceError::Store)?;
        self.guard(pool, tx).await
    }

    pub(super) async fn guard(
        &self,
        pool: &Pool<DB>,
        mut tx: Transaction<'static, DB>,
    ) -> Result<FencedTx<DB>, FenceError<Error>> {
        match DB::guard(&mut tx, self.token.resource()).await {
            Ok(mark) => {
                self.judge(mark)?;
                Ok(FencedTx::new(tx, self.clone()))
            }
            Err(error) if DB::is_conflict(&error) => {
                // The mark moved behind the snapshot. Only a claim moves it, and our own lies before.
                drop(tx);
                self.judge(self.fence.mark(pool, &self.token).await?)?;
                Err(FenceError::Store(error))
            }
            Err(error) => Err(FenceError::Store(error)),
        }
    }

    fn judge(&self, mark: Option<Mark>) -> Result<(), FenceError<Error>> {
        let judged = FenceError::unless_claimed(&self.token, mark);
        if let Err(FenceError::NoClaim { .. }) = &judged {
            self.fence.confirmed.forget(&self.token);
        }
        judged
    }
}

impl<DB: Dialect> Clone for SqlFence<DB> {
    fn clone(&self) -> Self {
        Self {
            scope: self.scope.clone(),
            isolation: self.isolation,
            confirmed: Arc::clone(&self.confirmed),
            database: PhantomData,
        }
    }
}

impl<DB: Dialect> Clone for SqlClaim<DB> {
    fn clone(&self) -> Self {
        Self { fence: self.fence.clone(), token: self.token.clone() }
    }
}

impl<DB: Dialect> fmt::Debug for SqlFence<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlFence")
            .field("scope", &self.scope)
            .field("isolation", &self.isolation)
            .finish_non_exhaustive()
    }
}

impl<DB: Dialect> fmt::Debug for SqlClaim<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqlClaim").field(&self.token).finish()
    }
}
