//! What differs between the databases.

use sqlx::{Database, Error, Pool, Transaction};

use super::Isolation;
use crate::{Mark, Token};

/// The longest resource name in bytes: what the migrations give the key column.
pub(super) const MAX_NAME_BYTES: usize = 1024;

/// A database that this crate has statements for. Sealed: the statements are subtle.
pub trait Dialect: Database + Statements {
    /// The statement that makes the table of marks, if it is not there. Give it to your migration tool,
    /// or call [`SqlFence::migrate`](super::SqlFence::migrate).
    const MIGRATION: &'static str;
}

/// The statements, out of the public's reach.
pub trait Statements: Database {
    /// Runs the migration.
    fn migrate(pool: &Pool<Self>) -> impl Future<Output = Result<(), Error>> + Send;

    /// Records the token if it is newer than the mark, in one atomic step that is committed when this
    /// answers. Says whether it was; if not, the mark is for the caller to look at.
    fn claim(pool: &Pool<Self>, token: &Token) -> impl Future<Output = Result<bool, Error>> + Send;

    /// The committed mark.
    fn mark(pool: &Pool<Self>, resource: &str) -> impl Future<Output = Result<Option<Mark>, Error>> + Send;

    /// Opens a transaction.
    fn begin(
        pool: &Pool<Self>,
        isolation: Isolation,
    ) -> impl Future<Output = Result<Transaction<'static, Self>, Error>> + Send;

    /// The newest mark, locked until the transaction ends: others may lock it so too (one holder, many
    /// transactions), but nobody can raise it.
    fn guard(
        connection: &mut Self::Connection,
        resource: &str,
    ) -> impl Future<Output = Result<Option<Mark>, Error>> + Send;

    /// What the row-level form differs in.
    const ROWS: RowWords;

    /// Runs a statement and counts the rows that matched, changed or not.
    fn execute(
        connection: &mut Self::Connection,
        sql: String,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Runs a query for at most one row.
    fn fetch(
        connection: &mut Self::Connection,
        sql: String,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<Option<Self::Row>, Error>> + Send;

    /// Adds the sequence to the arguments.
    fn add_sequence(arguments: &mut Self::Arguments, token: &Token) -> Result<(), Error>;

    /// Adds the holder to the arguments.
    fn add_holder(arguments: &mut Self::Arguments, token: &Token) -> Result<(), Error>;

    /// A row of sequence and holder.
    fn to_mark(row: &Self::Row) -> Result<Option<Mark>, Error>;

    /// Whether the statement failed because somebody else's commit overtook the snapshot.
    fn is_conflict(error: &Error) -> bool;
}

/// The words of the row-level form.
#[derive(Debug, Clone, Copy)]
pub struct RowWords {
    /// Placeholders carry their number (`$3`), or not (`?`).
    pub(super) numbered: bool,
    /// `UPDATE … RETURNING` exists.
    pub(super) returning: bool,
    /// Makes a plain read see the newest commit inside a snapshot.
    pub(super) lock: &'static str,
    /// The two columns' types and defaults: a row that was never claimed is below every token.
    pub(super) columns: [&'static str; 2],
}

/// A row of two columns, as any of the databases returns it. Below zero: never claimed.
pub(super) fn to_mark((sequence, holder): (i64, Vec<u8>)) -> Result<Option<Mark>, Error> {
    let Ok(sequence) = u64::try_from(sequence) else { return Ok(None) };
    let holder = holder.try_into().map_err(|_| Error::Decode("a holder is not 16 bytes".into()))?;
    Ok(Some(Mark::new(sequence, holder)))
}

/// Sequences are at most 2^53-1, so this never saturates.
pub(super) fn signed(token: &Token) -> i64 {
    i64::try_from(token.sequence()).unwrap_or(i64::MAX)
}
