//! SQLite.

use sqlx::{
    Arguments, AssertSqlSafe, Error, Pool, Row, Sqlite, SqliteConnection, Transaction, query, query_as,
    query_with,
};

use super::dialect::{RowWords, Statements, signed, to_mark};
use super::{Dialect, Isolation};
use crate::{Mark, Token};

const CLAIM: &str = "
    INSERT INTO fence_mark (resource, seq, holder) VALUES (?, ?, ?)
    ON CONFLICT (resource) DO UPDATE SET seq = excluded.seq, holder = excluded.holder
    WHERE fence_mark.seq < excluded.seq
    RETURNING 1";

const MARK: &str = "SELECT seq, holder FROM fence_mark WHERE resource = ?";

impl Dialect for Sqlite {
    const MIGRATION: &'static str = include_str!("../../migrations/sqlite.sql");
}

impl Statements for Sqlite {
    const ROWS: RowWords = RowWords {
        numbered: false,
        returning: true,
        lock: "",
        columns: ["INTEGER NOT NULL DEFAULT -1", "BLOB NOT NULL DEFAULT x''"],
    };

    async fn migrate(pool: &Pool<Self>) -> Result<(), Error> {
        query(Self::MIGRATION).execute(pool).await.map(drop)
    }

    async fn claim(pool: &Pool<Self>, token: &Token) -> Result<bool, Error> {
        let holder = token.holder();
        let claim = query(CLAIM).bind(token.resource()).bind(signed(token)).bind(holder.as_slice());
        Ok(claim.fetch_optional(pool).await?.is_some())
    }

    async fn mark(pool: &Pool<Self>, resource: &str) -> Result<Option<Mark>, Error> {
        query_as(MARK).bind(resource).fetch_optional(pool).await?.map_or(Ok(None), to_mark)
    }

    /// IMMEDIATE: a transaction that reads first and takes the write lock later fails with BUSY when
    /// somebody wrote in between, and no time-out helps.
    async fn begin(pool: &Pool<Self>, _: Isolation) -> Result<Transaction<'static, Self>, Error> {
        pool.begin_with("BEGIN IMMEDIATE").await
    }

    /// The write lock of the transaction keeps every claim out; a read is enough.
    async fn guard(connection: &mut SqliteConnection, resource: &str) -> Result<Option<Mark>, Error> {
        query_as(MARK).bind(resource).fetch_optional(connection).await?.map_or(Ok(None), to_mark)
    }

    async fn execute(
        connection: &mut SqliteConnection,
        sql: String,
        arguments: Self::Arguments,
    ) -> Result<u64, Error> {
        let query = query_with(AssertSqlSafe(sql), arguments);
        Ok(query.execute(connection).await?.rows_affected())
    }

    async fn fetch(
        connection: &mut SqliteConnection,
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

    fn is_conflict(_: &Error) -> bool {
        false
    }
}
