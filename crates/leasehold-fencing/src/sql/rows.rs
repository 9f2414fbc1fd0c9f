//! The row-level form: the mark lives in the row that it protects.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use sqlx::{Arguments, Encode, Error, FromRow, Type};

use super::Dialect;
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
    scope: Scope,
    table: &'static str,
    key: &'static str,
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
    async fn resolve<K>(
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

/// The proof that a row was claimed.
pub struct RowClaim<DB: Dialect, K> {
    fence: RowFence<DB>,
    token: Token,
    key: K,
}

impl<DB: Dialect, K: Clone> RowClaim<DB, K> {
    /// The token that was claimed with.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// A change of the claimed row: what would stand between SET and WHERE. Its values are bound before
    /// it is executed.
    pub fn set(&self, assignments: &'static str) -> RowUpdate<DB, K> {
        RowUpdate::new(&self.fence, &self.token, self.key.clone(), assignments, false)
    }
}

/// An UPDATE of one row, fenced.
#[must_use = "nothing is written before `execute`"]
pub struct RowUpdate<DB: Dialect, K> {
    fence: RowFence<DB>,
    token: Token,
    key: K,
    assignments: &'static str,
    /// Whether the statement raises the mark as well, or wants its own.
    claims: bool,
    arguments: DB::Arguments,
    broken: Option<Error>,
}

impl<DB: Dialect, K> RowUpdate<DB, K> {
    fn new(fence: &RowFence<DB>, token: &Token, key: K, assignments: &'static str, claims: bool) -> Self {
        let arguments = DB::Arguments::default();
        Self { fence: fence.clone(), token: token.clone(), key, assignments, claims, arguments, broken: None }
    }

    /// The next value, as in sqlx.
    pub fn bind<'q, T: Encode<'q, DB> + Type<DB>>(mut self, value: T) -> Self {
        if let Err(error) = self.arguments.add(value) {
            self.broken.get_or_insert(Error::Encode(error));
        }
        self
    }

    /// Runs it.
    ///
    /// # Errors
    ///
    /// [`Stale`](FenceError::Stale), [`Duplicate`](FenceError::Duplicate),
    /// [`NoSuchRow`](FenceError::NoSuchRow); and [`NoClaim`](FenceError::NoClaim) if the claim was
    /// rolled back.
    pub async fn execute(self, connection: &mut DB::Connection) -> Result<(), FenceError<Error>>
    where
        K: for<'q> Encode<'q, DB> + Type<DB> + Clone,
    {
        if let Some(error) = self.broken {
            return Err(FenceError::Store(error));
        }
        self.fence.scope.check(&self.token)?;
        let mut sql = Statement::<DB> {
            text: format!("UPDATE {} SET {}", self.fence.table, self.assignments),
            arguments: self.arguments,
        };
        if self.claims {
            sql.text.push_str(", ");
            sql.assign(&self.token)?;
        }
        sql.push(" WHERE ", self.fence.key, " = ").value(self.key.clone())?;
        if self.claims {
            sql.accepts(&self.token)?;
        } else {
            sql.equals(&self.token)?;
        }
        let matched = DB::execute(connection, sql.text, sql.arguments).await.map_err(FenceError::Store)?;
        if matched > 0 {
            return Ok(());
        }
        self.fence.resolve(connection, &self.token, &self.key).await?;
        Err(FenceError::NoClaim { ours: self.token })
    }
}

/// A statement in the making: text and arguments grow together, so that the numbers fit.
struct Statement<DB: Dialect> {
    text: String,
    arguments: DB::Arguments,
}

impl<DB: Dialect> Statement<DB> {
    fn new(text: String) -> Self {
        Self { text, arguments: DB::Arguments::default() }
    }

    fn push(&mut self, before: &str, word: &str, after: &str) -> &mut Self {
        self.text.push_str(before);
        self.text.push_str(word);
        self.text.push_str(after);
        self
    }

    /// An argument and its placeholder.
    fn value<K>(&mut self, value: K) -> Result<(), FenceError<Error>>
    where
        K: for<'q> Encode<'q, DB> + Type<DB>,
    {
        self.arguments.add(value).map_err(|error| FenceError::Store(Error::Encode(error)))?;
        self.placeholder();
        Ok(())
    }

    fn placeholder(&mut self) {
        if DB::ROWS.numbered {
            self.push("$", &self.arguments.len().to_string(), "");
        } else {
            self.text.push('?');
        }
    }

    fn sequence(&mut self, before: &str, token: &Token) -> Result<&mut Self, FenceError<Error>> {
        DB::add_sequence(&mut self.arguments, token).map_err(FenceError::Store)?;
        self.text.push_str(before);
        self.placeholder();
        Ok(self)
    }

    fn holder(&mut self, before: &str, token: &Token) -> Result<&mut Self, FenceError<Error>> {
        DB::add_holder(&mut self.arguments, token).map_err(FenceError::Store)?;
        self.text.push_str(before);
        self.placeholder();
        Ok(self)
    }

    fn assign(&mut self, token: &Token) -> Result<(), FenceError<Error>> {
        self.sequence("fence_seq = ", token)?.holder(", fence_holder = ", token).map(drop)
    }

    fn equals(&mut self, token: &Token) -> Result<(), FenceError<Error>> {
        self.sequence(" AND fence_seq = ", token)?.holder(" AND fence_holder = ", token).map(drop)
    }

    /// Newer, or the same. Comparing the pairs as rows, `(fence_seq, fence_holder) <= (?, ?)`, is
    /// shorter and wrong: it accepts a duplicate whose holder is the larger one.
    fn accepts(&mut self, token: &Token) -> Result<(), FenceError<Error>> {
        self.sequence(" AND (fence_seq < ", token)?.sequence(" OR fence_seq = ", token)?;
        self.holder(" AND fence_holder = ", token)?.text.push(')');
        Ok(())
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

impl<DB: Dialect, K: fmt::Debug> fmt::Debug for RowClaim<DB, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowClaim").field("token", &self.token).field("key", &self.key).finish_non_exhaustive()
    }
}
