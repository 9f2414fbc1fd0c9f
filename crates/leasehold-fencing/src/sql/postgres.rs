//! PostgreSQL.

use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::{
    Arguments, AssertSqlSafe, Error, PgConnection, Pool, Postgres, Row, Transaction, query, query_as,
    query_with,
};

use super::dialect::{RowWords, Statements, signed, to_mark};
use super::{Dialect, FencedTx, Isolation, SqlFence};
use crate::{FenceError, Mark, Token};

/// One statement, so one round trip and one transaction of its own. `synchronous_commit = off` saves the
/// flush to disk: the claim must be *seen* before the data is read, and need not be durable before the
/// data is, because a crash that loses it is noticed by the guard. `MATERIALIZED` keeps the planner from
/// dropping the setting.
const CLAIM: &str = "
    WITH unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
    INSERT INTO fence_mark AS mark (resource, seq, holder)
    SELECT $1, $2, $3 FROM unflushed
    ON CONFLICT (resource) DO UPDATE SET seq = excluded.seq, holder = excluded.holder
    WHERE mark.seq < excluded.seq
    RETURNING 1";

const MARK: &str = "SELECT seq, holder FROM fence_mark WHERE resource = $1";

/// FOR SHARE, not FOR UPDATE: the transactions of one holder do not wait for each other, and a claim,
/// which updates the row, waits for all of them. FOR KEY SHARE would not hold a claim back.
const GUARD: &str = "SELECT seq, holder FROM fence_mark WHERE resource = $1 FOR SHARE";

const fn begin(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::Inherited => "BEGIN",
        Isolation::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
        Isolation::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ",
        Isolation::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
    }
}

impl SqlFence<Postgres> {
    /// As [`begin`](Self::begin), with no statement and no pause longer than `remaining`: what is left
    /// of the lease. The database then ends the transaction of a holder that froze, whatever its client
    /// does, and the successor waits no longer than that. Costs no round trip.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin); a statement that is cut off fails with SQLSTATE 57014 or 55P03, and a
    /// pause ends the session.
    pub async fn begin_within(
        &self,
        pool: &Pool<Postgres>,
        token: &Token,
        remaining: Duration,
    ) -> Result<FencedTx<Postgres>, FenceError<Error>> {
        let claim = self.claim(pool, token).await?;
        let begin = begin(self.level());
        // 0 would mean: no limit.
        let limit = remaining.as_millis().clamp(1, 2_147_483_647);
        // SET takes no arguments, and LOCAL ends with the transaction, so the pool's connection is as
        // it was. One simple query: the snapshot is still taken by the guard.
        let begin = format!(
            "{begin}; SET LOCAL statement_timeout = {limit}; SET LOCAL lock_timeout = {limit}; \
             SET LOCAL idle_in_transaction_session_timeout = {limit}"
        );
        let tx = pool.begin_with(AssertSqlSafe(begin)).await.map_err(FenceError::Store)?;
        claim.guard(pool, tx).await
    }
}

impl Dialect for Postgres {
    const MIGRATION: &'static str = include_str!("../../migrations/postgres.sql");
}

impl Statements for Postgres {
    const ROWS: RowWords = RowWords {
        numbered: true,
        returning: true,
        lock: " FOR SHARE",
        columns: ["BIGINT NOT NULL DEFAULT -1", "BYTEA NOT NULL DEFAULT ''"],
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

    async fn begin(pool: &Pool<Self>, isolation: Isolation) -> Result<Transaction<'static, Self>, Error> {
        pool.begin_with(begin(isolation)).await
    }

    async fn guard(connection: &mut PgConnection, resource: &str) -> Result<Option<Mark>, Error> {
        query_as(GUARD).bind(resource).fetch_optional(connection).await?.map_or(Ok(None), to_mark)
    }

    async fn execute(
        connection: &mut PgConnection,
        sql: String,
        arguments: Self::Arguments,
    ) -> Result<u64, Error> {
        let query = query_with(AssertSqlSafe(sql), arguments);
        Ok(query.execute(connection).await?.rows_affected())
    }

    async fn fetch(
        connection: &mut PgConnection,
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

    fn is_conflict(error: &Error) -> bool {
        error.as_database_error().and_then(DatabaseError::code).is_some_and(|code| code == "40001")
    }
}
