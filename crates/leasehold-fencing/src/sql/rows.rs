//! The row-level form: the mark lives in the row that it protects.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use sqlx::{Encode, Error, FromRow, Type};

use super::statement::Statement;
use super::{Dialect, RowClaim, RowUpdate};
use crate::scope::Scope;
use crate::{FenceError, Token};

/// A fence in each row of a table, for hot tables: two columns, `fence_seq` and `fence_holder`, and a
/// condition on them in statements that run anyway.
///
/// It protects single rows: the token's resource must stand for the row, one lock for one row. Where a
/// hold covers several rows, use [`SqlFence`](super::SqlFence).
///
/// ```
/// # #[cfg(feature = "postgres")] {
/// use leasehold_fencing::{FenceError, PgRowFence, Token};
///
/// # async fn sell(pool: sqlx::PgPool, token: &Token) -> Result<(), FenceError<sqlx::Error>> {
/// let stock = PgRowFence::new("orders", "stock", "id");
/// let mut tx = pool.begin().await.map_err(FenceError::Store)?;
/// let (claim, (left,)): (_, (i64,)) =
///     stock.claim_and_read(&mut tx, token, 42_i64, "quantity").await?;
/// claim.set("quantity = $1").bind(left - 1).execute(&mut tx).await?;
/// tx.commit().await.map_err(FenceError::Store)?;
/// # Ok(())
/// # }
/// # }
/// ```
///
/// The claim counts from the commit of its transaction, and holds the row's lock until then. If it was
/// rolled back, writes under it are refused with [`NoClaim`](FenceError::NoClaim), because what was read
/// is not protected any more.
pub struct RowFence<DB: Dialect> {
    pub(super) scope: Scope,
    pub(super) table: &'static str,
    pub(super) key: &'static str,
    database: PhantomData<fn() -> DB>,
}

impl<DB: Dialect> RowFence<DB> {
    /// A fence for the rows of `table`, whose primary key is `key`. Both go into the statements as they
    /// are, quotes included if they need any. For `scope` see [`SqlFence::new`](super::SqlFence::new).
    #[must_use]
    pub fn new(scope: impl Into<Arc<str>>, table: &'static str, key: &'static str) -> Self {
        Self { scope: Scope::new(scope), table, key, database: PhantomData }
    }

    /// The two statements that add the columns.
    #[must_use]
    pub fn migration(&self) -> [String; 2] {
        let [sequence, holder] = DB::ROWS.columns;
        let table = self.table;
        [
            format!("ALTER TABLE {table} ADD COLUMN fence_seq {sequence}"),
            format!("ALTER TABLE {table} ADD COLUMN fence_holder {holder}"),
        ]
    }

    /// Raises the row's mark. The row is locked until the transaction ends.
    ///
    /// # Errors
    ///
    /// [`Stale`](FenceError::Stale), [`Duplicate`](FenceError::Duplicate), and
    /// [`NoSuchRow`](FenceError::NoSuchRow).
    pub async fn claim<K>(
        &self,
        connection: &mut DB::Connection,
        token: &Token,
        key: K,
    ) -> Result<RowClaim<DB, K>, FenceError<Error>>
    where
        K: for<'q> Encode<'q, DB> + Type<DB> + Clone + Send + Sync,
    {
        let (sql, arguments) = self.claim_sql(token, &key)?;
        let matched = DB::execute(connection, sql, arguments).await.map_err(FenceError::Store)?;
        if matched == 0 {
            self.resolve(connection, token, &key).await?;
        }
        Ok(RowClaim { fence: self.clone(), token: token.clone(), key })
    }

    /// [`claim`](Self::claim), and reads some columns of the row: in one statement where the database
    /// has `UPDATE … RETURNING`. `columns` is what would stand between SELECT and FROM.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    pub async fn claim_and_read<K, T>(
        &self,
        connection: &mut DB::Connection,
        token: &Token,
        key: K,
        columns: &'static str,
    ) -> Result<(RowClaim<DB, K>, T), FenceError<Error>>
    where
        K: for<'q> Encode<'q, DB> + Type<DB> + Clone + Send + Sync,
        T: for<'r> FromRow<'r, DB::Row>,
    {
        let row = if DB::ROWS.returning {
            let (sql, arguments) = self.claim_sql(token, &key)?;
            let sql = format!("{sql} RETURNING {columns}");
            DB::fetch(connection, sql, arguments).await.map_err(FenceError::Store)?
        } else {
            self.claim(connection, token, key.clone()).await?;
            // The lock makes the read see what the claim saw, not the transaction's older snapshot.
            let mut sql = Statement::<DB>::new(format!("SELECT {columns} FROM {}", self.table));
            sql.push(" WHERE ", self.key, " = ").value(key.clone())?;
            sql.text.push_str(DB::ROWS.lock);
            DB::fetch(connection, sql.text, sql.arguments).await.map_err(FenceError::Store)?
        };
        let Some(row) = row else {
            self.resolve(connection, token, &key).await?;
            return Err(FenceError::NoSuchRow { ours: token.clone() });
        };
        let read = T::from_row(&row).map_err(FenceError::Store)?;
        Ok((RowClaim { fence: self.clone(), token: token.clone(), key }, read))
    }

    /// Claims and writes in one statement: for changes that need no read, like `quantity = quantity - 1`.
    pub fn set<K>(&self, token: &Token, key: K, assignments: &'static str) -> RowUpdate<DB, K> {
        RowUpdate::new(self, token, key, assignments, true)
    }

    fn claim_sql<K>(&self, token: &Token, key: &K) -> Result<(String, DB::Arguments), FenceError<Error>>
    where
        K: for<'q> Encode<'q, DB> + Type<DB> + Clone,
    {
        self.scope.check(token)?;
        let mut sql = Statement::<DB>::new(format!("UPDATE {} SET ", self.table));
        sql.assign(token)?;
        sql.push(" WHERE ", self.key, " = ").value(key.clone())?;
        sql.accepts(token)?;
        Ok((sql.text, sql.arguments))
    }

    /// No row matched: was there none, or is it fenced? Asked in the same transaction.
    pub(super) async fn resolve<K>(
        &self,
        connection: &mut DB::Connection,
        token: &Token,
        key: &K,
    ) -> Result<(), FenceError<Error>>
    where
        K: for<'q> Encode<'q, DB> + Type<DB> + Clone,
    {
        let mut sql = Statement::<DB>::new(format!("SELECT fence_seq, fence_holder FROM {}", self.table));
        sql.push(" WHERE ", self.key, " = ").value(key.clone())?;
        sql.text.push_str(DB::ROWS.lock);
        let row = DB::fetch(connection, sql.text, sql.arguments).await.map_err(FenceError::Store)?;
        let Some(row) = row else { return Err(FenceError::NoSuchRow { ours: token.clone() }) };
        FenceError::unless_claimed(token, DB::to_mark(&row).map_err(FenceError::Store)?)
    }
}

impl<DB: Dialect> Clone for RowFence<DB> {
    fn clone(&self) -> Self {
        Self { scope: self.scope.clone(), table: self.table, key: self.key, database: PhantomData }
    }
}

impl<DB: Dialect> fmt::Debug for RowFence<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowFence")
            .field("scope", &self.scope)
            .field("table", &self.table)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
