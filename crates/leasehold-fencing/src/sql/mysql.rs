//! MySQL and MariaDB.

use sqlx::mysql::MySqlDatabaseError;
use sqlx::{
    Arguments, AssertSqlSafe, Error, MySql, MySqlConnection, Pool, Row, Transaction, query, query_as,
    query_with,
};

use super::dialect::{RowWords, Statements, signed, to_mark};
use super::{Dialect, Isolation};
use crate::{Mark, Token};

/// `ON DUPLICATE KEY UPDATE` takes no WHERE, and `IF()` in its assignments depends on their order, so a
/// claim is an UPDATE, and an INSERT where there was no row. The condition counts, not the affected
/// rows of an unchanged row: a token equal to the mark is not updated at all.
const RAISE: &str = "UPDATE fence_mark SET seq = ?, holder = ? WHERE resource = ? AND seq < ?";

/// IGNORE makes a row that came meanwhile no error. It would also cut a name that is too long; the
/// length is checked before.
const FIRST: &str = "INSERT IGNORE INTO fence_mark (resource, seq, holder) VALUES (?, ?, ?)";

const MARK: &str = "SELECT seq, holder FROM fence_mark WHERE resource = ?";

/// The spelling that MySQL and MariaDB share. A locking read sees the newest commit at every isolation
/// level, and the snapshot of the transaction is taken by the first plain read behind it.
const GUARD: &str = "SELECT seq, holder FROM fence_mark WHERE resource = ? LOCK IN SHARE MODE";

impl Dialect for MySql {
    const MIGRATION: &'static str = include_str!("../../migrations/mysql.sql");
}

impl Statements for MySql {
    const ROWS: RowWords = RowWords {
        numbered: false,
        returning: false,
        lock: " LOCK IN SHARE MODE",
        columns: ["BIGINT NOT NULL DEFAULT -1", "BINARY(16) NOT NULL DEFAULT ''"],
    };

    async fn migrate(pool: &Pool<Self>) -> Result<(), Error> {
        query(Self::MIGRATION).execute(pool).await.map(drop)
    }

    async fn claim(pool: &Pool<Self>, token: &Token) -> Result<bool, Error> {
        let (sequence, holder) = (signed(token), token.holder());
        let mut connection = pool.acquire().await?;
        // Twice: the row may come between UPDATE and INSERT. After an INSERT that did nothing there is
        // a row for the second UPDATE; marks are never deleted.
        for _ in 0..2 {
            let raise = query(RAISE).bind(sequence).bind(holder.as_slice());
            let raise = raise.bind(token.resource().as_bytes()).bind(sequence);
            if raise.execute(&mut *connection).await?.rows_affected() > 0 {
                return Ok(true);
            }
            let first = query(FIRST).bind(token.resource().as_bytes()).bind(sequence);
            let first = first.bind(holder.as_slice());
            if first.execute(&mut *connection).await?.rows_affected() > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn mark(pool: &Pool<Self>, resource: &str) -> Result<Option<Mark>, Error> {
        let mark = query_as(MARK).bind(resource.as_bytes());
        mark.fetch_optional(pool).await?.map_or(Ok(None), to_mark)
    }

    async fn begin(pool: &Pool<Self>, isolation: Isolation) -> Result<Transaction<'static, Self>, Error> {
        let level = match isolation {
            Isolation::Inherited => return pool.begin().await,
            Isolation::ReadCommitted => "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
            Isolation::RepeatableRead => "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            Isolation::Serializable => "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        };
        let mut connection = pool.acquire().await?;
        // Without SESSION it holds for the next transaction only, and the pool gets back what it gave.
        query(level).execute(&mut *connection).await?;
        Transaction::begin(connection, None).await
    }

    async fn guard(connection: &mut MySqlConnection, resource: &str) -> Result<Option<Mark>, Error> {
        let guard = query_as(GUARD).bind(resource.as_bytes());
        guard.fetch_optional(connection).await?.map_or(Ok(None), to_mark)
    }

    async fn execute(
        connection: &mut MySqlConnection,
        sql: String,
        arguments: Self::Arguments,
    ) -> Result<u64, Error> {
        let query = query_with(AssertSqlSafe(sql), arguments);
        Ok(query.execute(connection).await?.rows_affected())
    }

    async fn fetch(
        connection: &mut MySqlConnection,
        sql: String,
        arguments: Self::Arguments,
    ) -> Result<Option<Self::Row>, Error> {
        query_with(AssertSqlSafe(sql), arguments).fetch_optional(connection).await
    }

    fn add_sequence(arguments: &mut Self::Arguments, token: &Token) -> Result<(), Error> {
        arguments.add(signed(token)).map_err(Error::Encode)
    }

    fn add_holder(arguments: &mut Self::Arguments, token: &Token) -> Result<(), Error> {
        arguments.add(token.holder().to_vec()).map_err(Error::Encode)
    }

    fn to_mark(row: &Self::Row) -> Result<Option<Mark>, Error> {
        to_mark((row.try_get(0)?, row.try_get(1)?))
    }

    /// 1213 is a deadlock; 1020 is MariaDB's `innodb_snapshot_isolation`.
    fn is_conflict(error: &Error) -> bool {
        let number = |error: &dyn sqlx::error::DatabaseError| {
            error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
        };
        matches!(error.as_database_error().and_then(number), Some(1213 | 1020))
    }
}
