//! How the end of a hold that nobody released reaches everyone, once.

use std::sync::Arc;

use tracing::warn;

use super::record::Record;
use super::release::Job;
use super::shared::Shared;
use crate::clock;
use crate::outcome::{HoldState, LostReason};

impl Shared {
    /// Latches the loss, tells everyone who watches, and passes what the hold may have left: a late
    /// renewal could otherwise keep a record of nobody for a whole lease.
    ///
    /// Needs no runtime: a look at a hold past its deadline ends here too, on any thread.
    pub(crate) fn lose(&self, record: &Arc<Record>, reason: LostReason) {
        if !record.latch(reason) {
            return;
        }
        let held = self.table().begin_pass(record.owner.count);
        let held_for = clock::now().since(record.since);
        warn!(lock = record.keys.name(), owner = %record.owner, token = record.sequence(), ?held_for, %reason, "lock lost");
        record.tell();
        if held {
            self.pass_later(Job::of_hold(record, self.settings.command_timeout));
        }
    }

    /// How the hold stands now. A hold past its deadline is lost from the first look on, whether or
    /// not any timer has fired.
    pub(crate) fn stand(&self, record: &Arc<Record>) -> HoldState {
        let now = clock::now();
        if record.is_open() && now >= record.deadline() {
            self.lose(record, record.expiry());
        }
        record.state(now)
    }
}
