//! A claimed row, and changes of it.

use std::fmt;

use sqlx::{Arguments, Encode, Error, Type};

use super::statement::Statement;
use super::{Dialect, RowFence};
use crate::{FenceError, Token};

/// The proof that a row was claimed.
pub struct RowClaim<DB: Dialect, K> {
    pub(super) fence: RowFence<DB>,
    pub(super) token: Token,
    pub(super) key: K,
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
    pub(super) fn new(
        fence: &RowFence<DB>,
        token: &Token,
        key: K,
        assignments: &'static str,
        claims: bool,
    ) -> Self {
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

impl<DB: Dialect, K: fmt::Debug> fmt::Debug for RowClaim<DB, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowClaim").field("token", &self.token).field("key", &self.key).finish_non_exhaustive()
    }
}
