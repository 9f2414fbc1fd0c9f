//! What connections do when they break, fall silent, or end.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Instant;

use leasehold_testkit::{Direction, Relay};

use super::*;
use crate::server::{Subscribers, Why};

/// How often the connections look after themselves in these tests.
fn quick() -> Tuning {
    Tuning {
        connect_timeout: Duration::from_millis(500),
        command_timeout: Duration::from_millis(200),
        probe_every: Duration::from_millis(100),
        ..Tuning::default()
    }
}

const SHORT: Duration = Duration::from_millis(150);
const PATIENT: Duration = Duration::from_secs(5);

/// First polls, in order; nothing is awaited.
fn start<F: Future + ?Sized>(call: &mut Pin<Box<F>>) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut context).is_pending());
}

async fn missed(client: &mut Client) {
    loop {
        if matches!(client.pushed().await, Push::Missed) {
            return;
        }
    }
}

async fn served(client: &Client, keys: &Keys, owner: OwnerId) {
    eventually("calls are served again", PATIENT, async || client.renew(keys, owner, LEASE).await.is_ok())
        .await;
}

/// What the server knows of this library's connections.
async fn connections(admin: &mut Admin) -> usize {
    ask(admin, &["CLIENT", "LIST"]).await.text().matches(" name=leasehold-").count()
}

#[tokio::test]
async fn calls_run_in_the_order_of_their_first_poll() {
    let server = TestServer::start().await;
    let keys = keys(&server, "order");
    let (mut a, mut b) = (Client::of(&server).await, Client::of(&server).await);
    let _ = a.hold(&keys).await;
    let owners: Vec<OwnerId> = (0..300).map(|_| b.owner()).collect();
    let mut calls: Vec<_> = owners
        .iter()
        .map(|owner| {
            let take = Take {
                keys: &keys,
                owner: *owner,
                lease: LEASE,
                claim: CLAIM,
                mode: Mode::Wait(None),
                check_max: LEASE,
                who: "w",
            };
            b.server.take(take, WITHIN)
        })
        .collect();
    calls.iter_mut().for_each(start);
    for (nth, call) in calls.into_iter().enumerate() {
        let Taken::Queued { place, .. } = call.await.unwrap().body else { panic!() };
        assert_eq!(place, nth as u64);
    }
}

/// The life of a hold relies on it: an acquire that was dropped is undone by the pass behind it,
/// also where the server's cache lacks one of the two scripts.
#[tokio::test]
async fn a_pass_behind_a_dropped_take_comes_last() {
    let server = TestServer::own().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "undo");
    let mut client = Client::of(&server).await;
    for flush in [false, true, true] {
        let owner = client.owner();
        if flush {
            ask(&mut admin, &["SCRIPT", "FLUSH"]).await;
        }
        let take = Take {
            keys: &keys,
            owner,
            lease: LEASE,
            claim: CLAIM,
            mode: Mode::Try,
            check_max: LEASE,
            who: "w",
        };
        let mut call = client.server.take(take, WITHIN);
        start(&mut call);
        drop(call);
        client.pass(&keys, Target::Own(owner), Some(LEASE)).await.unwrap();
        assert_eq!(ask(&mut admin, &["EXISTS", keys.name()]).await.int(), 0);
        assert!(matches!(client.take(&keys, owner, Mode::Try).await.unwrap().body, Taken::Void));
    }
}

#[tokio::test]
async fn nothing_is_left_behind_a_close_or_a_drop() {
    let server = TestServer::own().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "close");
    for close in [true, false] {
        let mut client = Client::of(&server).await;
        client.listen().await;
        let (owner, _) = client.hold(&keys).await;
        client.release(&keys, owner).await;
        assert_eq!(connections(&mut admin).await, 2);
        if close {
            client.server.close(WITHIN).await;
            let started = Instant::now();
            assert_eq!(client.take(&keys, owner, Mode::Try).await.unwrap_err().why, Why::Closed);
            assert_eq!(client.server.listen(WITHIN).await.unwrap_err().why, Why::Closed);
            assert!(started.elapsed() < Duration::from_millis(100));
            // The tasks let go of what sends pushes: the stream ends.
            let ended = async { while client.pushes.recv().await.is_some() {} };
            tokio::time::timeout(PATIENT, ended).await.expect("the stream of pushes goes on");
            client.server.close(WITHIN).await;
        }
        drop(client);
        eventually("both connections are gone", PATIENT, async || connections(&mut admin).await == 0).await;
    }
}

#[tokio::test]
async fn a_frozen_server_does_not_hold_up_a_close() {
    let server = TestServer::own().await;
    let mut client = Client::of(&server).await;
    let keys = keys(&server, "frozen");
    client.listen().await;
    let (owner, _) = client.hold(&keys).await;
    server.pause().await;
    let started = Instant::now();
    let batch = [Renew { keys: keys.clone(), owner, lease: LEASE }];
    let mut call = client.server.renew(&batch, WITHIN);
    start(&mut call);
    client.server.close(WITHIN).await;
    let fault = call.await.unwrap_err();
    assert_eq!((fault.why, fault.may_have_run), (Why::Closed, true));
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    server.resume().await;
}

#[tokio::test]
async fn fault_f19_a_killed_command_connection_comes_back_and_pushes_are_checked() {
    let server = TestServer::own().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "killed");
    let mut client = Client::of(&server).await;
    client.listen().await;
    let (owner, _) = client.hold(&keys).await;
    ask(&mut admin, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    missed(&mut client).await;
    served(&client, &keys, owner).await;
    eventually("both are named again", PATIENT, async || connections(&mut admin).await == 2).await;
}

#[tokio::test]
async fn fault_f20_a_killed_push_connection_is_subscribed_again() {
    let server = TestServer::own().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "pubsub");
    let (mut a, mut b) = (Client::of(&server).await, Client::of(&server).await);
    b.listen().await;
    for _ in 0..3 {
        ask(&mut admin, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        missed(&mut b).await;
        let (owner, _) = a.hold(&keys).await;
        let (waiter, _) = b.wait(&keys).await;
        a.release(&keys, owner).await;
        assert_eq!(b.granted().await.owner, waiter);
        b.release(&keys, waiter).await;
    }
}

#[tokio::test]
async fn fault_f1_a_restarted_server_is_found_again() {
    let server = TestServer::own().await;
    let keys = keys(&server, "restart");
    let mut client = Client::connect(server.url(), server.prefix(), quick()).await.unwrap();
    client.listen().await;
    let (owner, token) = client.hold(&keys).await;
    server.kill().await;
    let fault = client.renew(&keys, owner, LEASE).await.unwrap_err();
    assert!(matches!(fault.why, Why::Unavailable | Why::TimedOut), "{fault}");
    server.restart().await;
    missed(&mut client).await;
    served(&client, &keys, owner).await;
    assert!(matches!(client.renew(&keys, owner, LEASE).await, Ok(Mine::No(Found::Absent))));
    assert!(client.hold(&keys).await.1 > token, "the counter is lost, and yet no token comes back");
    client.listen().await;
}

#[tokio::test]
async fn a_command_connection_that_falls_silent_is_replaced() {
    let server = TestServer::start().await;
    let relay = Relay::to(&server);
    let keys = keys(&server, "silent");
    let mut client = Client::connect(relay.url(), server.prefix(), quick()).await.unwrap();
    let (owner, _) = client.hold(&keys).await;
    relay.conn(0).hold(Direction::Both);
    let batch = [Renew { keys: keys.clone(), owner, lease: LEASE }];
    for _ in 0..3 {
        let fault = client.server.renew(&batch, SHORT).await.unwrap_err();
        assert_eq!((fault.why, fault.may_have_run), (Why::TimedOut, true));
    }
    served(&client, &keys, owner).await;
    assert!(relay.accepted() >= 2);
}

#[tokio::test]
async fn a_push_connection_that_falls_silent_is_replaced() {
    let server = TestServer::start().await;
    let relay = Relay::to(&server);
    let keys = keys(&server, "deaf");
    let mut a = Client::of(&server).await;
    let mut b = Client::connect(relay.url(), server.prefix(), quick()).await.unwrap();
    b.listen().await;
    relay.conn(1).hold(Direction::Both);
    missed(&mut b).await;
    let (owner, _) = a.hold(&keys).await;
    let (waiter, _) = b.wait(&keys).await;
    a.release(&keys, owner).await;
    assert_eq!(b.granted().await.owner, waiter);
}

#[tokio::test]
async fn many_calls_make_one_repair() {
    let server = TestServer::start().await;
    let relay = Relay::to(&server);
    let keys = keys(&server, "repair");
    let mut a = Client::of(&server).await;
    let mut b = Client::connect(relay.url(), server.prefix(), Tuning::default()).await.unwrap();
    let _ = a.hold(&keys).await;
    let (waiter, _) = b.wait(&keys).await;
    let reply = b.take(&keys, waiter, Mode::Wait(None)).await.unwrap();
    assert!(matches!(reply.body, Taken::Queued { subscribers: Subscribers::Count(0), .. }));
    b.listen().await;
    for _ in 0..100 {
        b.server.repair();
    }
    missed(&mut b).await;
    let reply = b.take(&keys, waiter, Mode::Wait(None)).await.unwrap();
    assert!(matches!(reply.body, Taken::Queued { subscribers: Subscribers::Count(1), .. }));
    assert_eq!(relay.accepted(), 3, "for commands, for pushes, for pushes again");
}

#[tokio::test]
async fn callers_share_one_attempt_to_listen() {
    let server = TestServer::start().await;
    let relay = Relay::to(&server);
    let client = Client::connect(relay.url(), server.prefix(), Tuning::default()).await.unwrap();
    assert_eq!(relay.accepted(), 1, "no push connection before somebody waits");
    let mut calls: Vec<_> = (0..50).map(|_| client.server.listen(WITHIN)).collect();
    calls.iter_mut().for_each(start);
    for call in calls {
        call.await.unwrap();
    }
    client.listen().await;
    assert_eq!(relay.accepted(), 2);
}

#[tokio::test]
async fn listening_fails_while_the_server_is_away_and_works_later() {
    let server = TestServer::start().await;
    let relay = Relay::to(&server);
    let client = Client::connect(relay.url(), server.prefix(), quick()).await.unwrap();
    relay.refuse();
    assert!(client.server.listen(WITHIN).await.is_err());
    relay.accept();
    client.listen().await;
}

#[tokio::test]
async fn a_burst_is_either_whole_or_missed() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let mut client = Client::of(&server).await;
    client.listen().await;
    let channel = format!("{}push:{}", server.prefix(), client.id);
    let message = format!("g {}:1 7 7 5000 1 a", client.id);
    let script = "for i = 1, 20000 do redis.call('PUBLISH', ARGV[1], ARGV[2]) end";
    admin.call(&["EVAL", script, "0", &channel, &message]).await;
    let mut grants = 0;
    while grants < 20_000 {
        match client.pushed().await {
            Push::Grant(_) => grants += 1,
            Push::Missed => break,
            other => panic!("{other:?}"),
        }
    }
    // What is hostile is dropped, and what follows it arrives.
    for hostile in ["", "g", "nonsense", "g x 1 1 1 99 a", "\u{fffd}"] {
        admin.call(&["PUBLISH", &channel, hostile]).await;
    }
    admin.call(&["PUBLISH", &channel, &format!("e {}:9 7 7 0 1 a", client.id)]).await;
    loop {
        if let Push::Evicted { owner, .. } = client.pushed().await {
            assert_eq!(owner.count, 9);
            break;
        }
    }
}

#[tokio::test]
async fn connecting_says_why_it_failed_and_shows_no_password() {
    let server = TestServer::start().await;
    let refused = Client::connect("redis://127.0.0.1:1".to_owned(), "t:", quick()).await;
    assert_eq!(refused.err().unwrap().why, Why::Unavailable);
    let url = format!("redis://nobody:s3cret@{}", server.address());
    let fault = Client::connect(url, "t:", quick()).await.err().unwrap();
    assert_eq!(fault.why, Why::Denied, "{fault}");
    assert!(!fault.may_have_run && !format!("{fault:?}").contains("s3cret"), "{fault:?}");
}

#[cfg(feature = "unix-sockets")]
#[tokio::test]
async fn a_unix_socket_carries_it_all() {
    let server = TestServer::builder().unix().start().await;
    let keys = keys(&server, "socket");
    let mut client = Client::of(&server).await;
    client.listen().await;
    let (owner, _) = client.hold(&keys).await;
    client.release(&keys, owner).await;
    assert!(client.server.address().starts_with('/'), "{}", client.server.address());
}
