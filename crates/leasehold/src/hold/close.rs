//! The end of a client: waiters leave first, so that none of them is served by the release of its
//! own client's holds; then the holds are released.

use std::time::Duration;

use tracing::{debug, warn};

use super::asking::Trace;
use super::release::Job;
use super::shared::{Core, Shared};
use super::table::State;
use crate::outcome::LostReason;
use crate::owner::OwnerId;

pub(crate) async fn close(core: &Core, within: Duration) {
    let shared = &core.shared;
    shared.table().closing = true;
    let orderly = async {
        let asking = shared.table().all_asking();
        let waiters = asking.len();
        for count in asking {
            let Some(State::Asking(mut asking)) = shared.table().remove(count) else { continue };
            if asking.trace != Trace::None {
                let owner = OwnerId { client: shared.client, count };
                let tombstone = asking.needs_tombstone();
                shared.pass_later(Job::of_owner(&asking.spec.keys, owner, tombstone, asking.spec.lease));
            }
            // Its task finds the owner gone, and answers `Closed`.
            if let Some(waker) = asking.waker.take() {
                waker.wake();
            }
        }
        // Half of the time at most: holds matter more.
        let _ = tokio::time::timeout(within / 2, shared.janitor.idle()).await;
        let holds = end_holds(shared);
        debug!(waiters, holds, "closing");
        shared.janitor.idle().await;
        core.stop();
        core.stopped().await;
    };
    if tokio::time::timeout(within, orderly).await.is_err() {
        warn!(?within, "not closed in time; leases end what is left");
        end_holds(shared);
        core.cut().await;
    }
}

/// Loses what is held, which passes it in the background. How many there were.
fn end_holds(shared: &Shared) -> usize {
    let held = shared.table().all_held();
    for record in &held {
        shared.lose(record, LostReason::Closed);
    }
    held.len()
}
