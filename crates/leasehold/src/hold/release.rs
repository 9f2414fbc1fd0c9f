//! The release that somebody waits for, and every pass that nobody waits for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Mutex, Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::{debug, trace, warn};

use super::record::Record;
use super::shared::{Shared, contained};
use crate::clock::{self, Moment};
use crate::error::{Error, Phase};
use crate::key::Keys;
use crate::outcome::{HoldState, LostReason, Outcome};
use crate::owner::OwnerId;
use crate::server::{Fault, Found, Pass, Passed, Reply, Target};

/// How long the server refuses a late `take` of an owner that has ended: longer than any request can
/// stay under way, reconnects included.
const TOMBSTONE: Duration = Duration::from_secs(60);

/// Passes under way at once. More would only queue at the connection.
const PASSES: usize = 64;

/// Tries of one release before its caller is told that the outcome is unknown.
const TRIES: u32 = 3;

/// A pass for the janitor.
pub(crate) struct Job {
    keys: Keys,
    owner: OwnerId,
    tombstone: bool,
    /// When there is nothing left to pass: the lease has ended it.
    give_up: Moment,
}

impl Job {
    /// The pass of a hold that is over.
    pub(crate) fn of_hold(record: &Record, command_timeout: Duration) -> Self {
        let give_up = record.deadline().max(clock::now()) + command_timeout;
        Self { keys: record.keys.clone(), owner: record.owner, tombstone: record.unsure, give_up }
    }

    /// The pass of an owner that never came to hold, as far as it knows.
    pub(crate) fn of_owner(keys: &Keys, owner: OwnerId, tombstone: bool, lease: Duration) -> Self {
        Self { keys: keys.clone(), owner, tombstone, give_up: clock::now() + lease }
    }
}

/// Counts the passes that are still to be done: the janitor's, and those that somebody waits for.
#[derive(Default)]
pub(crate) struct Janitor {
    open: AtomicUsize,
    idle: Notify,
}

impl Janitor {
    pub(crate) fn expect(&self, jobs: usize) {
        self.open.fetch_add(jobs, Ordering::AcqRel);
    }

    pub(crate) fn done(&self) {
        // None is left to count down where they were abandoned.
        let before = self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| open.checked_sub(1));
        if before == Ok(1) {
            self.idle.notify_waiters();
        }
    }

    /// Nobody will do what is left.
    pub(crate) fn abandon(&self) {
        self.open.store(0, Ordering::Release);
        self.idle.notify_waiters();
    }

    /// Returns when nothing is left to do.
    pub(crate) async fn idle(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            idle.as_mut().enable();
            if self.open.load(Ordering::Acquire) == 0 {
                return;
            }
            idle.await;
        }
    }
}

/// Sends one pass and takes in what its reply tells.
async fn pass(shared: &Shared, keys: &Keys, owner: OwnerId, tombstone: bool) -> Result<Passed, Fault> {
    let request = Pass { keys, target: Target::Own(owner), tombstone: tombstone.then_some(TOMBSTONE) };
    let sent = clock::now();
    let reply: Reply<Passed> = shared.server.pass(request, shared.settings.command_timeout).await?;
    shared.table().waited.note_pass(keys, clock::now());
    match &reply.body {
        Passed::Released { broken: Some(broken) } => {
            warn!(lock = keys.name(), %owner, broken, "released, but waiters could not be told");
        }
        Passed::NotHeld { queued: true, .. } => trace!(lock = keys.name(), %owner, "left the queue"),
        body => trace!(lock = keys.name(), %owner, ?body, "passed"),
    }
    if let Some(grant) = reply.grant {
        shared.granted(&grant, Some(sent));
    }
    Ok(reply.body)
}

/// Releases a hold whose last guard is leaving.
///
/// Dropping the future leaves the rest to the janitor.
pub(crate) async fn release(shared: &Arc<Shared>, record: &Arc<Record>) -> Result<Outcome, Error> {
    let began = clock::now();
    if let HoldState::Lost(reason) = shared.stand(record) {
        return Ok(Outcome::Lost(reason));
    }
    let Some(parting) = Parting::begin(shared, record) else {
        return Ok(record.lost_reason().map_or(Outcome::Unknown, Outcome::Lost));
    };
    for attempt in 0..TRIES {
        match pass(shared, &record.keys, record.owner, record.unsure).await {
            Ok(passed) => {
                parting.finish();
                let outcome = outcome(&passed, attempt > 0);
                let held_for = clock::now().since(record.since);
                debug!(lock = record.keys.name(), owner = %record.owner, token = record.sequence(), ?held_for, ?outcome, "released");
                return Ok(outcome);
            }
            Err(fault) => {
                debug!(lock = record.keys.name(), owner = %record.owner, %fault, attempt, "release failed");
                if !fault.is_temporary() {
                    let elapsed = clock::now().since(began);
                    let error = Error::from(fault).with_lock(record.keys.name());
                    return Err(error.at(Phase::Release, shared.server.address(), elapsed));
                }
                if attempt + 1 == TRIES {
                    break;
                }
                tokio::time::sleep(shared.settings.backoff.delay(attempt, &shared.chance)).await;
            }
        }
    }
    Ok(Outcome::Unknown)
}

/// What a pass answered, for the one who released. A repeated request proves less: the first may
/// have released, and somebody else's turn have come and gone since.
fn outcome(passed: &Passed, repeated: bool) -> Outcome {
    match passed {
        Passed::Released { .. } => Outcome::Released,
        Passed::NotHeld { before: true, .. } if repeated => Outcome::Released,
        Passed::NotHeld { .. } if repeated => Outcome::Unknown,
        Passed::NotHeld { found: Found::Absent, .. } => Outcome::Lost(LostReason::Gone),
        Passed::NotHeld { .. } => Outcome::Lost(LostReason::Taken),
    }
}

/// The undo of a release: while it lives unfinished, its drop hands the pass to the janitor.
struct Parting<'a> {
    shared: &'a Shared,
    record: &'a Arc<Record>,
}

impl<'a> Parting<'a> {
    fn begin(shared: &'a Shared, record: &'a Arc<Record>) -> Option<Self> {
        if !record.end() {
            return None;
        }
        shared.janitor.expect(1);
        shared.table().begin_pass(record.owner.count);
        record.tell();
        Some(Self { shared, record })
    }

    fn finish(self) {
        self.shared.table().end_pass(self.record.owner.count);
        self.shared.janitor.done();
        std::mem::forget(self);
    }
}

impl Drop for Parting<'_> {
    fn drop(&mut self) {
        self.shared.pass_later(Job::of_hold(self.record, self.shared.settings.command_timeout));
        self.shared.janitor.done();
    }
}

impl Shared {
    /// Releases a hold in the background: what the drop of its last guard does. Never blocks, never
    /// panics, needs no runtime.
    pub(crate) fn release_later(&self, record: &Arc<Record>) {
        drop(Parting::begin(self, record));
    }
}

/// Does the passes that nobody waits for, many at a time, until the client is gone and all are done.
pub(crate) async fn janitor(
    shared: &Shared,
    inbox: &Mutex<mpsc::UnboundedReceiver<Job>>,
    stop: &CancellationToken,
) {
    let mut inbox = inbox.lock().await;
    let mut waiting = VecDeque::new();
    let mut flights = FuturesUnordered::new();
    let mut open = true;
    loop {
        while flights.len() < PASSES
            && let Some(job) = waiting.pop_front()
        {
            // A panic of one must not take the others with it.
            flights.push(contained("janitor", perform(shared, job, stop)));
        }
        tokio::select! {
            biased;
            Some(ended) = flights.next(), if !flights.is_empty() => {
                if ended == Some(false) {
                    // Nobody answers and nobody may wait: the lease ends the rest.
                    waiting.drain(..).for_each(|job: Job| drop(Done(shared, job.owner.count)));
                }
            }
            Some(job) = inbox.recv(), if open => waiting.push_back(job),
            () = stop.cancelled(), if open => {
                // What was dropped before the end is still passed; later drops leave it to the lease.
                inbox.close();
                while let Ok(job) = inbox.try_recv() {
                    waiting.push_back(job);
                }
                open = false;
            }
            else => return,
        }
    }
}

/// One job, tried until it is answered or pointless. False: the client ends, and it was not answered.
async fn perform(shared: &Shared, job: Job, stop: &CancellationToken) -> bool {
    let _done = Done(shared, job.owner.count);
    for attempt in 0.. {
        match pass(shared, &job.keys, job.owner, job.tombstone || attempt > 0).await {
            Ok(_) => return true,
            Err(fault) => {
                debug!(lock = job.keys.name(), owner = %job.owner, %fault, attempt, "a background pass failed");
                let delay = shared.settings.backoff.delay(attempt, &shared.chance);
                if fault.is_temporary() && stop.is_cancelled() {
                    return false;
                }
                if !fault.is_temporary() || clock::now() + delay >= job.give_up {
                    return true;
                }
                // Once more at once, when the client ends.
                let _ = tokio::time::timeout(delay, stop.cancelled()).await;
            }
        }
    }
    true
}

/// Counts a job as done and its owner as gone, however the job ends.
struct Done<'a>(&'a Shared, u64);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.table().end_pass(self.1);
        self.0.janitor.done();
    }
}
