//! Servers that are there and refuse.

use super::*;
use crate::server::Why;

/// Redis checks `maxmemory` before each command, and 1 byte is never enough.
async fn fill(admin: &mut Admin) {
    ask(admin, &["CONFIG", "SET", "maxmemory", "1"]).await;
}

async fn empty(admin: &mut Admin) {
    ask(admin, &["CONFIG", "SET", "maxmemory", "0"]).await;
}

#[tokio::test]
async fn fault_f11_out_of_memory_refuses_growth_and_serves_the_rest() {
    let server = TestServer::own().await;
    let mut admin = server.admin().await;
    let (free, held_, queued) = (keys(&server, "free"), keys(&server, "held"), keys(&server, "queued"));
    let (mut a, mut b) = (Client::of(&server).await, Client::of(&server).await);
    b.listen().await;
    let (owner, _) = a.hold(&held_).await;
    let (first, _) = a.hold(&queued).await;
    let (second, ticket) = b.wait(&queued).await;
    let (third, _) = b.wait(&queued).await;
    fill(&mut admin).await;

    // A free lock, and a new waiter behind a holder: refused, nothing written.
    let fresh = a.owner();
    for keys in [&free, &held_] {
        let fault = a.take(keys, fresh, Mode::Wait(None)).await.unwrap_err();
        assert_eq!((fault.why, fault.may_have_run), (Why::Full, false), "{fault}");
        assert_eq!(ask(&mut admin, &["EXISTS", &keys.queue(), &keys.waiters()]).await.int(), 0);
    }
    assert_eq!(ask(&mut admin, &["EXISTS", free.name(), &free.fence()]).await.int(), 0);
    // Renewal, and the check of a known waiter.
    assert!(matches!(a.renew(&held_, owner, LEASE * 2).await, Ok(Mine::Yes { .. })));
    let reply = b.take(&queued, second, Mode::Wait(Some(ticket))).await.unwrap();
    assert!(matches!(reply.body, Taken::Queued { missing: false, .. }));
    // A release with hand-over and token, and the claim with its facts.
    assert!(matches!(a.release(&queued, first).await.body, Passed::Released { broken: None }));
    assert_eq!(b.granted().await.owner, second);
    assert!(matches!(b.claim(&queued, second, false).await, Mine::Yes { remaining: LEASE, .. }));
    // A new waiter where the key is gone and others wait: served, and it hands over.
    ask(&mut admin, &["DEL", queued.name()]).await;
    let reply = a.take(&queued, fresh, Mode::Wait(None)).await.unwrap();
    assert!(matches!(reply.body, Taken::Queued { .. }), "{:?}", reply.body);
    assert_eq!(b.granted().await.owner, third);
    // Leaving, with a tombstone.
    let reply = a.pass(&queued, Target::Own(fresh), Some(LEASE)).await.unwrap();
    assert!(matches!(reply.body, Passed::NotHeld { queued: true, .. }));
    // A known waiter whose queue is gone: refused, nothing written.
    let (fourth, place) = {
        empty(&mut admin).await;
        let waiting = b.wait(&queued).await;
        fill(&mut admin).await;
        waiting
    };
    ask(&mut admin, &["DEL", &queued.queue()]).await;
    let fault = b.take(&queued, fourth, Mode::Wait(Some(place))).await.unwrap_err();
    assert_eq!((fault.why, fault.may_have_run), (Why::Full, false));
    // Force, and looking.
    let text = owner.to_string();
    let Some(crate::server::Holder::Ours { token, .. }) = b.server.look(&held_, WITHIN).await.unwrap().holder
    else {
        panic!()
    };
    let seen = Target::Seen { owner: &text, token };
    assert!(matches!(b.pass(&held_, seen, None).await.unwrap().body, Passed::Released { .. }));
    empty(&mut admin).await;
    assert_all_expire(&server).await;
}

/// Every call that decides something must fail on a server that takes no writes, or a replica that
/// lags would answer a final "no".
async fn assert_refused(client: &Client, keys: &Keys, owner: OwnerId, other: OwnerId) {
    let mut faults = vec![
        client.take(keys, owner, Mode::Try).await.unwrap_err(),
        client.renew(keys, owner, LEASE).await.unwrap_err(),
        client.renew(keys, other, LEASE).await.unwrap_err(),
        client.pass(keys, Target::Own(owner), None).await.unwrap_err(),
        client.pass(keys, Target::Own(other), None).await.unwrap_err(),
        client.pass(keys, Target::Own(other), Some(LEASE)).await.unwrap_err(),
        client.pass(keys, Target::Seen { owner: "x:1", token: 1 }, None).await.unwrap_err(),
        client.take(keys, other, Mode::Wait(None)).await.unwrap_err(),
    ];
    for owner in [owner, other] {
        let claim = Claim { keys, owner, lease: LEASE, fixed: false, who: "w" };
        faults.push(client.server.claim(claim, WITHIN).await.unwrap_err());
    }
    for fault in faults {
        assert_eq!((fault.why, fault.may_have_run), (Why::Refusing, false), "{fault}");
    }
    assert!(client.server.look(keys, WITHIN).await.unwrap().holder.is_some(), "looking is a read");
}

#[tokio::test]
async fn fault_f7_a_demoted_primary_decides_nothing() {
    let server = TestServer::own().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "demoted");
    let mut client = Client::of(&server).await;
    let (owner, _) = client.hold(&keys).await;
    let other = client.owner();
    ask(&mut admin, &["REPLICAOF", "127.0.0.1", "1"]).await;
    assert_refused(&client, &keys, owner, other).await;
    let absent = super::keys(&server, "absent");
    assert_eq!(client.renew(&absent, owner, LEASE).await.unwrap_err().why, Why::Refusing);
    ask(&mut admin, &["REPLICAOF", "NO", "ONE"]).await;
    assert!(matches!(client.renew(&keys, owner, LEASE).await, Ok(Mine::Yes { .. })));
}

#[tokio::test]
async fn fault_f9_too_few_replicas_decide_nothing() {
    let server = TestServer::own().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "replicas");
    let mut client = Client::of(&server).await;
    let (owner, _) = client.hold(&keys).await;
    let other = client.owner();
    ask(&mut admin, &["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    assert_refused(&client, &keys, owner, other).await;
}

#[tokio::test]
async fn fault_f14_scripts_survive_a_flush_of_the_cache() {
    let server = TestServer::own().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "flush");
    let mut client = Client::of(&server).await;
    let (owner, _) = client.hold(&keys).await;
    ask(&mut admin, &["SCRIPT", "FLUSH"]).await;
    assert!(matches!(client.renew(&keys, owner, LEASE).await, Ok(Mine::Yes { .. })));
    ask(&mut admin, &["SCRIPT", "FLUSH"]).await;
    assert!(matches!(client.release(&keys, owner).await.body, Passed::Released { .. }));
}

/// The documented rule is enough, and less is told by name.
#[tokio::test]
async fn fault_f34_the_documented_acl_rule_is_enough() {
    let server = TestServer::builder().own().acl("-@all").start().await;
    let mut admin = server.admin().await;
    let url = grant(&server, &mut admin, &crate::server::redis::acl::rule(server.prefix())).await;
    let keys = keys(&server, "acl");
    let mut a = Client::connect(url.clone(), server.prefix(), Tuning::default()).await.unwrap();
    let mut b = Client::connect(url.clone(), server.prefix(), Tuning::default()).await.unwrap();
    b.listen().await;
    let (owner, _) = a.hold(&keys).await;
    let (waiter, _) = b.wait(&keys).await;
    let (left, _) = b.wait(&keys).await;
    assert!(matches!(a.renew(&keys, owner, LEASE).await, Ok(Mine::Yes { .. })));
    assert!(matches!(
        a.pass(&keys, Target::Own(owner), Some(LEASE)).await.unwrap().body,
        Passed::Released { broken: None }
    ));
    assert_eq!(b.granted().await.owner, waiter);
    assert!(matches!(b.claim(&keys, waiter, true).await, Mine::Yes { .. }));
    assert!(matches!(
        b.pass(&keys, Target::Own(left), None).await.unwrap().body,
        Passed::NotHeld { queued: true, .. }
    ));
    ask(&mut admin, &["SET", super::keys(&server, "s").name(), "x"]).await;
    assert!(b.server.look(&super::keys(&server, "s"), WITHIN).await.unwrap().holder.is_some());
    let clients = ask(&mut admin, &["CLIENT", "LIST"]).await.text();
    assert_eq!(clients.matches(" name=leasehold-").count(), 3, "{clients}");
    let log = ask(&mut admin, &["ACL", "LOG"]).await.array();
    assert!(log.is_empty(), "{log:?}");

    // Without each of the commands somebody is told which rule is missing, and no hold is left.
    for missing in ["-evalsha", "-incr", "-hset", "-time"] {
        ask(&mut admin, &["ACL", "SETUSER", "tight", missing]).await;
        let owner = a.owner();
        let fault = a.take(&super::keys(&server, "new"), owner, Mode::Try).await.unwrap_err();
        assert_eq!(fault.why, Why::Denied, "{missing}: {fault}");
        assert!(fault.text.contains("+evalsha +eval "), "{missing}: {fault}");
        assert_eq!(ask(&mut admin, &["EXISTS", super::keys(&server, "new").name()]).await.int(), 0);
        ask(&mut admin, &["ACL", "SETUSER", "tight", &missing.replace('-', "+")]).await;
    }
}

#[tokio::test]
async fn a_client_that_may_not_subscribe_polls() {
    let server = TestServer::builder().own().acl("-@all").start().await;
    let mut admin = server.admin().await;
    let rule = crate::server::redis::acl::rule(server.prefix());
    let url = grant(&server, &mut admin, &format!("{rule} -subscribe -pubsub")).await;
    let keys = keys(&server, "polls");
    let mut client = Client::connect(url, server.prefix(), Tuning::default()).await.unwrap();
    let fault = client.server.listen(WITHIN).await.unwrap_err();
    assert_eq!(fault.why, Why::Denied, "{fault}");
    let mut other = Client::connect(server.open_url(), server.prefix(), Tuning::default()).await.unwrap();
    let (owner, _) = other.hold(&keys).await;
    let (waiter, _) = client.wait(&keys).await;
    let reply = client.take(&keys, waiter, Mode::Wait(None)).await.unwrap();
    let Taken::Queued { subscribers, .. } = reply.body else { panic!() };
    assert_eq!(subscribers, crate::server::Subscribers::Unknown);
    other.release(&keys, owner).await;
    assert!(
        held(&client.take(&keys, waiter, Mode::Wait(None)).await.unwrap()).2,
        "it was granted, and looked"
    );
}

/// A release must say when a channel is denied: the grant is written and nobody is told.
#[tokio::test]
async fn a_denied_channel_is_named_by_the_release() {
    let server = TestServer::builder().own().acl("-@all").start().await;
    let mut admin = server.admin().await;
    let rule = crate::server::redis::acl::rule(server.prefix());
    let url = grant(&server, &mut admin, &format!("{rule} resetchannels &nothing")).await;
    let keys = keys(&server, "channel");
    let mut mute = Client::connect(url, server.prefix(), Tuning::default()).await.unwrap();
    let mut b = Client::connect(server.open_url(), server.prefix(), Tuning::default()).await.unwrap();
    b.listen().await;
    let (owner, _) = mute.hold(&keys).await;
    let (waiter, _) = b.wait(&keys).await;
    let Passed::Released { broken } = mute.release(&keys, owner).await.body else { panic!() };
    assert_eq!(broken, Some(format!("{}push:{}", server.prefix(), b.id)));
    assert!(held(&b.take(&keys, waiter, Mode::Wait(None)).await.unwrap()).2);
}

/// A user `tight` with exactly this rule; answers its URL.
async fn grant(server: &TestServer, admin: &mut Admin, rule: &str) -> String {
    let mut words = vec!["ACL", "SETUSER", "tight", "reset", "on", ">pw"];
    words.extend(rule.split_whitespace());
    ask(admin, &words).await;
    format!("redis://tight:pw@{}", server.address())
}
