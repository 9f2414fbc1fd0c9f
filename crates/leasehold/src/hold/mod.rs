//! The life of one hold, a file each, in the order in which it happens.
//!
//! ```text
//!            take: held                                  pass
//!   acquire ──────────────────────────────▶ hold ──────────────────▶ released
//!      │                                    ▲  │ ▲
//!      │ take: queued                       │  │ └─ renew: every third of the lease
//!      ▼            push, or a reply        │  ▼
//!    wait ──▶ grant ────────────────────────┘ lost ── told once ──▶ passed in the background
//!      ▲  │     claim
//!      └──┘ check: when the remaining time that was told is over
//! ```
//!
//! | file         | what happens                                               | runs in            |
//! |--------------|------------------------------------------------------------|--------------------|
//! | `asking.rs`  | an owner that wants the lock, and the stages of its asking | -                  |
//! | `seat.rs`    | an owner takes its place; the undo of its acquisition      | the caller's task  |
//! | `take.rs`    | a `take` is sent, and its answer taken in                  | caller, `waits`    |
//! | `acquire.rs` | one try                                                    | the caller's task  |
//! | `wait.rs`    | what a waiter sleeps on; the turns of its wait             | the caller's task  |
//! | `check.rs`   | pushes are read; one timer per waited lock sends a `take`  | task `waits`       |
//! | `grant.rs`   | a hand-over is read, and claimed before the work starts    | both               |
//! | `record.rs`  | what guard, watchdog and onlookers share about a hold      | -                  |
//! | `renew.rs`   | what is due is renewed in batches, failures soon again     | task `watchdog`    |
//! | `confirm.rs` | the holder asks the server, or moves the end of its hold   | the caller's task  |
//! | `lost.rs`    | a loss is latched, and told to everyone once               | any                |
//! | `release.rs` | the release, and every pass that nobody waits for          | caller, `janitor`  |
//! | `close.rs`   | the end of a client: waiters leave, holds are released     | the caller's task  |
//!
//! `shared.rs` is what all of them are handed. Behind it, `table.rs` is the one map of a client's owners,
//! with `waited.rs` for the locks that are waited for. One mutex, never held across an await.
//!
//! Invariants:
//!
//! 1. An owner is registered before its first bytes are queued, and has one state. It moves when
//!    news is *read*, not when the task that waits for it wakes.
//! 2. An owner that is in no state is gone. A grant that names it is passed on at once.
//! 3. An owner is dead after any pass: whoever goes on waiting does so as a fresh owner with the old
//!    ticket.
//! 4. A lock with waiters has a timer, or a `take` of ours is under way for it.
//! 5. The undo is armed before the first await: a dropped future leaves its owner to the janitor.
//! 6. A deadline is counted from the first transmission of the request that was answered.

mod acquire;
mod asking;
mod check;
mod close;
mod confirm;
mod grant;
mod lost;
mod record;
mod release;
mod renew;
mod seat;
mod shared;
mod table;
mod take;
#[cfg(test)]
mod tests;
mod wait;
mod waited;

pub(crate) use acquire::{Tried, attempt};
pub(crate) use asking::Spec;
pub(crate) use close::close;
pub(crate) use confirm::confirm;
pub(crate) use record::Record;
pub(crate) use release::release;
pub(crate) use shared::{Core, Settings, Shared};
pub(crate) use wait::{Waited, until_free, wait};
