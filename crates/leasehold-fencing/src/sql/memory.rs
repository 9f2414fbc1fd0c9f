//! What this process has claimed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Mark, Token, Verdict};

/// Above this many resources all are forgotten: a claim costs a statement, not its safety.
const MAX_RESOURCES: usize = 10_000;

/// The claims that the database has confirmed to this fence.
///
/// It saves the claim in all but the first transaction of a hold. More important, it makes a lost claim
/// visible: a database that crashed, or failed over to a replica that missed the claim, would take the
/// same claim a second time as if nothing had been read under the first.
#[derive(Debug, Default)]
pub(super) struct Confirmed(Mutex<HashMap<Arc<str>, Mark>>);

impl Confirmed {
    pub(super) fn check(&self, token: &Token) -> Verdict {
        token.check(self.lock().get(token.resource()).copied())
    }

    pub(super) fn record(&self, token: &Token) {
        let mut marks = self.lock();
        if marks.len() >= MAX_RESOURCES && !marks.contains_key(token.resource()) {
            marks.clear();
        }
        let mark = marks.entry(token.resource_arc()).or_insert_with(|| token.mark());
        // Two claims may come back in either order.
        if token.check(Some(*mark)) == Verdict::Newer {
            *mark = token.mark();
        }
    }

    /// After this the next transaction claims anew.
    pub(super) fn forget(&self, token: &Token) {
        let mut marks = self.lock();
        if marks.get(token.resource()) == Some(&token.mark()) {
            marks.remove(token.resource());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Mark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
