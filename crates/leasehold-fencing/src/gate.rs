//! Marks in memory: for consumers of a queue, and for single processes.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::{FenceError, Mark, Token, Verdict};

/// The highest token seen for each resource, in memory.
///
/// [`admit`](Gate::admit) is a filter: it says which messages to act on. [`enter`](Gate::enter) is for
/// work that takes time: a newer token waits until the older holder's work that is already inside has
/// left, so that a slow request cannot write behind its successor's back.
///
/// The marks end with the process. A consumer that must remember them stores [`marks`](Gate::marks) with
/// its offsets and comes back by [`from_marks`](Gate::from_marks).
///
/// ```
/// use leasehold_fencing::{FenceError, Gate, Token};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gate = Gate::new();
/// let (old, new) = (Token::new("stock", 7, [1; 16])?, Token::new("stock", 8, [2; 16])?);
/// gate.admit(&old)?;
/// gate.admit(&new)?;
/// gate.admit(&new)?; // many writes under one hold
/// assert!(matches!(gate.admit(&old), Err(FenceError::Stale { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Gate {
    entries: Mutex<HashMap<Arc<str>, Entry>>,
}

/// Invariants: `inside` counts the passages under `mark`, `older` those under lower marks; nobody gets a
/// passage while `older` is not 0; whoever brings `older` to 0, or raises `mark`, wakes all `waiting`.
struct Entry {
    mark: Mark,
    inside: usize,
    older: usize,
    waiting: Vec<Waker>,
}

impl Entry {
    fn new(mark: Mark) -> Self {
        Self { mark, inside: 0, older: 0, waiting: Vec::new() }
    }

    fn raise(&mut self, mark: Mark) {
        self.mark = mark;
        self.older += std::mem::take(&mut self.inside);
        self.wake();
    }

    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

impl Gate {
    /// A gate that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A gate that goes on from stored marks.
    pub fn from_marks<R: Into<Arc<str>>>(marks: impl IntoIterator<Item = (R, Mark)>) -> Self {
        let entries = marks.into_iter().map(|(resource, mark)| (resource.into(), Entry::new(mark)));
        Self { entries: Mutex::new(entries.collect()) }
    }

    /// Compares the token with the mark of its resource, and raises the mark if the token is newer.
    ///
    /// # Errors
    ///
    /// [`FenceError::Stale`] and [`FenceError::Duplicate`].
    pub fn admit(&self, token: &Token) -> Result<Verdict, FenceError> {
        admit(&mut self.lock(), token)
    }

    /// Lets the token's holder in until the [`Passage`] is dropped.
    ///
    /// The mark is raised at once, so no older holder gets in any more; then this waits for those that
    /// are in. Any number of passages under one token may be open at a time.
    ///
    /// # Errors
    ///
    /// [`FenceError::Stale`] and [`FenceError::Duplicate`]; stale also when a still newer token came
    /// while this one waited.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the mark raised and nobody inside.
    pub async fn enter(&self, token: &Token) -> Result<Passage<'_>, FenceError> {
        poll_fn(|context| {
            let mut entries = self.lock();
            if let Err(refused) = admit(&mut entries, token) {
                return Poll::Ready(Err(refused));
            }
            // `admit` has made the entry, or found it; a missing one has nobody to wait for either.
            if let Some(entry) = entries.get_mut(token.resource()) {
                if entry.older > 0 {
                    if !entry.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                        entry.waiting.push(context.waker().clone());
                    }
                    return Poll::Pending;
                }
                entry.inside += 1;
            }
            Poll::Ready(Ok(Passage { gate: self, token: token.clone() }))
        })
        .await
    }

    /// The mark of one resource.
    #[must_use]
    pub fn mark(&self, resource: &str) -> Option<Mark> {
        self.lock().get(resource).map(|entry| entry.mark)
    }

    /// All marks, in no order, for keeping elsewhere.
    #[must_use]
    pub fn marks(&self) -> Vec<(Arc<str>, Mark)> {
        self.lock().iter().map(|(resource, entry)| (Arc::clone(resource), entry.mark)).collect()
    }

    /// Forgets a resource that nobody is inside of; says whether it is gone.
    ///
    /// A gate grows by an entry with each resource it sees. Forgetting one opens the gate to every old
    /// token of it, so forget only what is older than any holder or message can be.
    pub fn forget(&self, resource: &str) -> bool {
        let mut entries = self.lock();
        let idle = entries
            .get(resource)
            .is_some_and(|entry| entry.inside == 0 && entry.older == 0 && entry.waiting.is_empty());
        idle && entries.remove(resource).is_some()
    }

    /// No code of a caller runs under this lock, and each change is whole before anything can panic: a
    /// poisoned map is as good as any.
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One look-up where the resource is known: this is the hot path of a consumer.
fn admit(entries: &mut HashMap<Arc<str>, Entry>, token: &Token) -> Result<Verdict, FenceError> {
    let Some(entry) = entries.get_mut(token.resource()) else {
        entries.insert(token.resource_arc(), Entry::new(token.mark()));
        return Ok(Verdict::Newer);
    };
    let verdict = FenceError::unless_accepted(token, Some(entry.mark))?;
    if verdict == Verdict::Newer {
        entry.raise(token.mark());
    }
    Ok(verdict)
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("resources", &self.lock().len()).finish()
    }
}

/// Being inside a [`Gate`]; dropping it is leaving.
#[derive(Debug)]
#[must_use = "the passage ends when it is dropped, and the next holder may come in"]
pub struct Passage<'a> {
    gate: &'a Gate,
    token: Token,
}

impl Passage<'_> {
    /// The token that opened the gate.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        let mut entries = self.gate.lock();
        let Some(entry) = entries.get_mut(self.token.resource()) else { return };
        if entry.mark == self.token.mark() {
            entry.inside = entry.inside.saturating_sub(1);
        } else {
            entry.older = entry.older.saturating_sub(1);
            if entry.older == 0 {
                entry.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    fn token(sequence: u64, holder: u8) -> Token {
        Token::new("stock", sequence, [holder; 16]).unwrap()
    }

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn marks_survive_by_being_stored() {
        let gate = Gate::new();
        gate.admit(&token(7, 1)).unwrap();
        let next = Gate::from_marks(gate.marks());
        assert!(next.admit(&token(6, 1)).unwrap_err().is_refused());
        assert!(matches!(next.admit(&token(7, 2)), Err(FenceError::Duplicate { .. })));
        assert_eq!(next.admit(&token(7, 1)), Ok(Verdict::Same));
    }

    #[test]
    fn a_newer_holder_waits_for_the_work_that_is_inside() {
        let gate = Gate::new();
        let (old, new) = (token(1, 1), token(2, 2));
        let Poll::Ready(Ok(inside)) = poll(pin!(gate.enter(&old))) else { panic!("free") };
        let Poll::Ready(Ok(twice)) = poll(pin!(gate.enter(&old))) else { panic!("same token") };
        let mut waiting = pin!(gate.enter(&new));
        assert!(poll(waiting.as_mut()).is_pending());
        assert!(matches!(poll(pin!(gate.enter(&old))), Poll::Ready(Err(FenceError::Stale { .. }))));
        assert!(!gate.forget("stock"), "somebody is inside");
        drop(inside);
        assert!(poll(waiting.as_mut()).is_pending());
        drop(twice);
        let Poll::Ready(Ok(passage)) = poll(waiting) else { panic!("all have left") };
        drop(passage);
        assert!(gate.forget("stock"));
    }

    #[test]
    fn a_waiter_that_was_overtaken_is_stale_and_leaves_no_trace() {
        let gate = Gate::new();
        let (first, second, third) = (token(1, 1), token(2, 2), token(3, 3));
        let Poll::Ready(Ok(inside)) = poll(pin!(gate.enter(&first))) else { panic!("free") };
        let mut overtaken = pin!(gate.enter(&second));
        assert!(poll(overtaken.as_mut()).is_pending());
        let mut last = pin!(gate.enter(&third));
        assert!(poll(last.as_mut()).is_pending());
        assert!(matches!(poll(overtaken), Poll::Ready(Err(FenceError::Stale { .. }))));
        drop(inside);
        assert!(matches!(poll(last), Poll::Ready(Ok(_))));
    }
}
