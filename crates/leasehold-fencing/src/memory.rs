//! Values in memory that only the newest holder can change.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{FenceError, FencedStore, Mark, Token, Verdict};

/// A value for each resource, with its mark under the same mutex: check and change are one step.
///
/// It is what a service needs that keeps its state in memory, and the smallest example of a
/// [`FencedStore`].
///
/// ```
/// use leasehold_fencing::{FenceError, Memory, Token};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let stock = Memory::new();
/// let old = stock.claim(&Token::new("stock/42", 7, [1; 16])?)?;
/// old.update(|left| *left = Some(1))?;
///
/// let new = stock.claim(&Token::new("stock/42", 8, [2; 16])?)?;
/// assert_eq!(new.read()?, Some(1));
/// assert!(matches!(old.update(|left| *left = Some(0)), Err(FenceError::Stale { .. })));
/// # Ok(())
/// # }
/// ```
pub struct Memory<T> {
    values: Arc<Mutex<HashMap<Arc<str>, Slot<T>>>>,
}

struct Slot<T> {
    mark: Mark,
    value: Option<T>,
}

impl<T> Memory<T> {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self { values: Arc::default() }
    }

    /// Raises the mark of the token's resource, and opens the way to its value.
    ///
    /// # Errors
    ///
    /// [`FenceError::Stale`] and [`FenceError::Duplicate`].
    pub fn claim(&self, token: &Token) -> Result<MemoryClaim<T>, FenceError> {
        let mut values = lock(&self.values);
        match values.get_mut(token.resource()) {
            Some(slot) => {
                if FenceError::unless_accepted(token, Some(slot.mark))? == Verdict::Newer {
                    slot.mark = token.mark();
                }
            }
            None => {
                values.insert(token.resource_arc(), Slot { mark: token.mark(), value: None });
            }
        }
        Ok(MemoryClaim { values: Arc::clone(&self.values), token: token.clone() })
    }
}

/// The way to one value of a [`Memory`].
pub struct MemoryClaim<T> {
    values: Arc<Mutex<HashMap<Arc<str>, Slot<T>>>>,
    token: Token,
}

impl<T> MemoryClaim<T> {
    /// Reads and changes the value under the mutex, if this is still the newest claim. `change` must not
    /// come back to the same [`Memory`].
    ///
    /// # Errors
    ///
    /// [`FenceError::Stale`] and [`FenceError::Duplicate`]; then `change` was not called.
    pub fn update<R>(&self, change: impl FnOnce(&mut Option<T>) -> R) -> Result<R, FenceError> {
        let mut values = lock(&self.values);
        let Some(slot) = values.get_mut(self.token.resource()) else {
            return Err(FenceError::NoClaim { ours: self.token.clone() });
        };
        FenceError::unless_claimed(&self.token, Some(slot.mark))?;
        Ok(change(&mut slot.value))
    }

    /// A copy of the value, if this is still the newest claim.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    pub fn read(&self) -> Result<Option<T>, FenceError>
    where
        T: Clone,
    {
        self.update(|value| value.clone())
    }
}

/// A `change` that panics leaves its value as far as it got, like any `&mut`; the marks are whole.
fn lock<T>(values: &Mutex<T>) -> MutexGuard<'_, T> {
    values.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FencedStore for Memory<Vec<u8>> {
    type Error = Infallible;
    type Claim = MemoryClaim<Vec<u8>>;

    async fn claim(&self, token: &Token) -> Result<Self::Claim, FenceError> {
        self.claim(token)
    }

    async fn read(&self, claim: &Self::Claim) -> Result<Option<Vec<u8>>, FenceError> {
        claim.read()
    }

    async fn write(&self, claim: &Self::Claim, value: &[u8]) -> Result<(), FenceError> {
        claim.update(|stored| *stored = Some(value.to_vec()))
    }
}

impl<T> Clone for Memory<T> {
    fn clone(&self) -> Self {
        Self { values: Arc::clone(&self.values) }
    }
}

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Memory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("resources", &lock(&self.values).len()).finish()
    }
}

impl<T> fmt::Debug for MemoryClaim<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryClaim").field("token", &self.token).finish_non_exhaustive()
    }
}
