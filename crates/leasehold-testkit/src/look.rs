//! What an all-seeing user can count and list.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Sub;

use crate::admin::Admin;

/// How often each command ran, by its lower-case name (`evalsha`, `client|setname`). Commands that a
/// script calls count too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats(BTreeMap<String, u64>);

impl Stats {
    /// How often `command` ran.
    #[must_use]
    pub fn of(&self, command: &str) -> u64 {
        self.0.get(command).copied().unwrap_or(0)
    }

    /// Every command that ran, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(command, calls)| (command.as_str(), *calls))
    }

    /// Calls of scripts, whichever way they were sent.
    #[must_use]
    pub fn scripts(&self) -> u64 {
        ["evalsha", "eval", "fcall"].iter().map(|command| self.of(command)).sum()
    }
}

/// `after - before`: what ran in between; commands that did not are left out.
impl Sub for Stats {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        let grown = |(command, calls): (String, u64)| {
            let more = calls.saturating_sub(before.of(&command));
            (more > 0).then_some((command, more))
        };
        Self(self.0.into_iter().filter_map(grown).collect())
    }
}

/// `INFO commandstats` as counts. The server counts for all its clients: only a server of one's own
/// ([`crate::Server::own`]) gives a test its own figures.
///
/// # Panics
/// When the server answers `INFO` with an error.
pub async fn stats(admin: &mut Admin) -> Stats {
    let text = admin.call(&["INFO", "commandstats"]).await.text();
    let count = |line: &str| {
        let (command, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let calls = fields.split(',').find_map(|field| field.strip_prefix("calls="))?;
        Some((command.to_owned(), calls.parse().ok()?))
    };
    Stats(text.lines().filter_map(count).collect())
}

/// All keys, sorted.
///
/// # Panics
/// When the server answers `SCAN` with an error.
pub async fn keys(admin: &mut Admin) -> Vec<String> {
    let mut found = BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let page = admin.call(&["SCAN", &cursor, "COUNT", "1000"]).await.array();
        let [next, names] = page.as_slice() else { panic!("SCAN answered {page:?}") };
        found.extend(names.texts());
        cursor = next.text();
        if cursor == "0" {
            return found.into_iter().collect();
        }
    }
}
