//! The scripts and the connections against a real server.

mod connections;
mod hand_over;
mod pass;
mod refusals;
mod renew;
mod smoke;
mod take;

use std::sync::Arc;
use std::time::Duration;

use leasehold_testkit::{Admin, Server as TestServer, eventually};
use tokio::sync::mpsc::UnboundedReceiver;
use uuid::Uuid;

use super::endpoint::Endpoint;
use super::tuning::Tuning;
use crate::key::Keys;
use crate::owner::OwnerId;
use crate::server::{
    Claim, Fault, Found, Grant, Mine, Mode, Pass, Passed, Push, Renew, Reply, Server, Take, Taken, Target,
    Ticket,
};

/// Longer than any test waits on purpose.
const LEASE: Duration = Duration::from_secs(30);
const CLAIM: Duration = Duration::from_secs(5);
const WITHIN: Duration = Duration::from_secs(5);

/// One client of the library: its server value, its pushes, its owners.
struct Client {
    server: Arc<dyn Server>,
    pushes: UnboundedReceiver<Push>,
    id: Uuid,
    next: u64,
}

impl Client {
    async fn of(server: &TestServer) -> Self {
        Self::connect(server.url(), server.prefix(), Tuning::default()).await.unwrap()
    }

    async fn connect(url: String, prefix: &str, tuning: Tuning) -> Result<Self, Fault> {
        let id = Uuid::new_v4();
        let endpoint = Endpoint::from_url(&url).unwrap();
        let (server, pushes) = super::connect(endpoint, tuning, id, format!("{prefix}push:{id}")).await?;
        Ok(Self { server, pushes, id, next: 0 })
    }

    fn owner(&mut self) -> OwnerId {
        self.next += 1;
        OwnerId { client: self.id, count: self.next }
    }

    async fn take(&self, keys: &Keys, owner: OwnerId, mode: Mode) -> Result<Reply<Taken>, Fault> {
        let take = Take { keys, owner, lease: LEASE, claim: CLAIM, mode, check_max: LEASE, who: "wtest" };
        self.server.take(take, WITHIN).await
    }

    /// Takes a free lock.
    async fn hold(&mut self, keys: &Keys) -> (OwnerId, u64) {
        let owner = self.owner();
        let reply = self.take(keys, owner, Mode::Try).await.unwrap();
        match reply.body {
            Taken::Held { token, unclaimed: false, .. } => (owner, token),
            other => panic!("not free: {other:?}"),
        }
    }

    /// Queues a new owner for a lock that somebody holds.
    async fn wait(&mut self, keys: &Keys) -> (OwnerId, Ticket) {
        let owner = self.owner();
        let reply = self.take(keys, owner, Mode::Wait(None)).await.unwrap();
        match reply.body {
            Taken::Queued { ticket, .. } => (owner, ticket),
            other => panic!("not queued: {other:?}"),
        }
    }

    async fn pass(
        &self,
        keys: &Keys,
        target: Target<'_>,
        tombstone: Option<Duration>,
    ) -> Result<Reply<Passed>, Fault> {
        self.server.pass(Pass { keys, target, tombstone }, WITHIN).await
    }

    async fn release(&self, keys: &Keys, owner: OwnerId) -> Reply<Passed> {
        self.pass(keys, Target::Own(owner), None).await.unwrap()
    }

    async fn claim(&self, keys: &Keys, owner: OwnerId, fixed: bool) -> Mine {
        let claim = Claim { keys, owner, lease: LEASE, fixed, who: "wclaimed" };
        self.server.claim(claim, WITHIN).await.unwrap().body
    }

    async fn renew(&self, keys: &Keys, owner: OwnerId, lease: Duration) -> Result<Mine, Fault> {
        let batch = [Renew { keys: keys.clone(), owner, lease }];
        self.server.renew(&batch, WITHIN).await?.remove(0)
    }

    async fn listen(&self) {
        self.server.listen(WITHIN).await.unwrap();
    }

    async fn pushed(&mut self) -> Push {
        tokio::time::timeout(WITHIN, self.pushes.recv()).await.expect("nothing was pushed").expect("closed")
    }

    async fn granted(&mut self) -> Grant {
        loop {
            match self.pushed().await {
                Push::Grant(grant) => return grant,
                Push::Missed => {}
                other => panic!("no grant: {other:?}"),
            }
        }
    }
}

fn keys(server: &TestServer, name: &str) -> Keys {
    Keys::new(server.prefix(), name).unwrap()
}

/// One command of the administrator, which must not be an error.
async fn ask(admin: &mut Admin, words: &[&str]) -> leasehold_testkit::Reply {
    let reply = admin.call(words).await;
    assert!(reply.error().is_none(), "{words:?}: {reply:?}");
    reply
}

/// Every key under the prefix ends by itself.
async fn assert_all_expire(server: &TestServer) {
    let mut admin = server.admin().await;
    for key in leasehold_testkit::keys(&mut admin).await {
        let left = ask(&mut admin, &["PTTL", &key]).await.int();
        assert!(left > 0 || left == -2, "{key} has PTTL {left}");
    }
}

fn held(reply: &Reply<Taken>) -> (u64, Duration, bool) {
    match &reply.body {
        Taken::Held { token, remaining, unclaimed } => (*token, *remaining, *unclaimed),
        other => panic!("not held: {other:?}"),
    }
}
