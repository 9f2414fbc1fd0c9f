//! Work that must not outlive its lock.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::error::Error;
use crate::guard::Held;
use crate::lock::Lock;
use crate::outcome::{HoldState, Outcome};

/// Work that was done under a lock: its own result, and how the lock's hold ended, apart.
#[derive(Debug)]
#[non_exhaustive]
pub struct Done<T> {
    /// What the work returned.
    pub output: T,
    /// How the release ended. A failed release never hides the work's result.
    pub release: Result<Outcome, Error>,
}

impl Lock {
    /// Waits for the lock, runs `work` under it, and releases it.
    ///
    /// The work is dropped, at its next await, the moment the lock is lost: it is not polled again
    /// once the hold's deadline is past, whether or not any timer has fired. What the work has moved
    /// to other tasks or threads goes on: give those [`Held::cancellation_token`], and every write the
    /// [`token`](Held::token). A panic of the work releases the lock in the background and goes on.
    ///
    /// # Errors
    ///
    /// The work never began, for the reasons of [`acquire`](Self::acquire); or the lock was lost
    /// before the work was done: [`ErrorKind::Lost`](crate::ErrorKind::Lost), with the reason.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases in the background.
    pub async fn run<F, W>(&self, work: F) -> Result<Done<W::Output>, Error>
    where
        F: FnOnce(Held) -> W,
        W: Future,
    {
        let guard = self.acquire().await?;
        let output = {
            let mut work = pin!(work(guard.held()));
            let mut lost = pin!(guard.lost());
            poll_fn(|context| {
                // Registers for the loss; the state itself is read afresh, since timers may be late.
                let _ = lost.as_mut().poll(context);
                if let HoldState::Lost(reason) = guard.state() {
                    return Poll::Ready(Err(reason));
                }
                work.as_mut().poll(context).map(Ok)
            })
            .await
        };
        match output {
            Ok(output) => Ok(Done { output, release: guard.release().await }),
            Err(reason) => Err(Error::lost(reason).with_lock(self.name())),
        }
    }
}
