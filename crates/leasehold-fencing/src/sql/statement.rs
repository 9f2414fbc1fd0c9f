//! Text and arguments of a statement, put together.

use sqlx::{Arguments, Encode, Error, Type};

use super::Dialect;
use crate::{FenceError, Token};

/// A statement in the making: text and arguments grow together, so that the numbers fit.
pub(super) struct Statement<DB: Dialect> {
    pub(super) text: String,
    pub(super) arguments: DB::Arguments,
}

impl<DB: Dialect> Statement<DB> {
    pub(super) fn new(text: String) -> Self {
        Self { text, arguments: DB::Arguments::default() }
    }

    pub(super) fn push(&mut self, before: &str, word: &str, after: &str) -> &mut Self {
        self.text.push_str(before);
        self.text.push_str(word);
        self.text.push_str(after);
        self
    }

    /// An argument and its placeholder.
    pub(super) fn value<K>(&mut self, value: K) -> Result<(), FenceError<Error>>
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

    pub(super) fn assign(&mut self, token: &Token) -> Result<(), FenceError<Error>> {
        self.sequence("fence_seq = ", token)?.holder(", fence_holder = ", token).map(drop)
    }

    pub(super) fn equals(&mut self, token: &Token) -> Result<(), FenceError<Error>> {
        self.sequence(" AND fence_seq = ", token)?.holder(" AND fence_holder = ", token).map(drop)
    }

    /// Newer, or the same. Comparing the pairs as rows, `(fence_seq, fence_holder) <= (?, ?)`, is
    /// shorter and wrong: it accepts a duplicate whose holder is the larger one.
    pub(super) fn accepts(&mut self, token: &Token) -> Result<(), FenceError<Error>> {
        self.sequence(" AND (fence_seq < ", token)?.sequence(" OR fence_seq = ", token)?;
        self.holder(" AND fence_holder = ", token)?.text.push(')');
        Ok(())
    }
}
