//! A hold, as the client side of a store sees it.

use std::time::Duration;

use leasehold_fencing::{Holding, Token};

use crate::{Guard, Held, LostReason};

impl Holding for Held {
    fn token(&self) -> Token {
        Held::token(self)
    }

    fn remaining(&self) -> Duration {
        Held::remaining(self)
    }
}

impl Holding for Guard {
    fn token(&self) -> Token {
        Held::token(self)
    }

    fn remaining(&self) -> Duration {
        Held::remaining(self)
    }
}

impl Held {
    /// Runs a future for as long as the hold lasts, renewals included: for the one statement or request
    /// that must not go on behind a lost lock. Whole pieces of work go through
    /// [`Lock::run`](crate::Lock::run).
    ///
    /// It caps what this process waits for, not what a server does with a statement it has: there the
    /// token decides, or a time-out of the database's own.
    ///
    /// # Errors
    ///
    /// The reason of the loss; the future was dropped then, or never polled.
    ///
    /// # Cancel safety
    ///
    /// That of the future.
    pub async fn timeout<F: Future>(&self, work: F) -> Result<F::Output, LostReason> {
        tokio::select! {
            // The loss first: a future that is ready at every poll must not outlive the lock.
            biased;
            reason = self.lost() => Err(reason),
            output = work => Ok(output),
        }
    }
}
