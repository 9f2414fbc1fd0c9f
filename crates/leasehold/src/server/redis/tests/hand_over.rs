use super::*;
use crate::server::Why;

#[tokio::test]
async fn a_release_passes_over_who_cannot_hear_and_serves_the_first_who_can() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "over");
    let mut holder = Client::of(&server).await;
    let (owner, token) = holder.hold(&keys).await;
    let mut deaf = Vec::new();
    for _ in 0..3 {
        let mut client = Client::of(&server).await;
        client.wait(&keys).await;
        deaf.push(client);
    }
    let (mut b, mut c) = (Client::of(&server).await, Client::of(&server).await);
    b.listen().await;
    c.listen().await;
    let (first, _) = b.wait(&keys).await;
    let (second, _) = c.wait(&keys).await;

    let reply = holder.release(&keys, owner).await;
    assert!(reply.grant.is_none() && matches!(reply.body, Passed::Released { broken: None }));
    let grant = b.granted().await;
    assert_eq!((grant.owner, grant.lock.as_str(), grant.remaining), (first, keys.name(), CLAIM));
    assert!(grant.token > token);
    assert_all_expire(&server).await;
    let left = ask(&mut admin, &["PTTL", keys.name()]).await.int();
    assert!((1..=5000).contains(&left), "the claim lease only: {left}");
    // A repeated take tells that it is still unclaimed; the claim lifts it.
    assert_eq!(held(&b.take(&keys, first, Mode::Wait(None)).await.unwrap()).0, grant.token);
    assert!(held(&b.take(&keys, first, Mode::Wait(None)).await.unwrap()).2);
    assert!(matches!(b.claim(&keys, first, false).await, Mine::Yes { remaining: LEASE, .. }));
    assert!(!held(&b.take(&keys, first, Mode::Wait(None)).await.unwrap()).2);

    b.release(&keys, first).await;
    assert_eq!(c.granted().await.owner, second);
    assert_eq!(ask(&mut admin, &["ZCARD", &keys.queue()]).await.int(), 3, "the deaf keep their places");
}

#[tokio::test]
async fn the_callers_own_waiter_is_told_in_the_reply() {
    let server = TestServer::start().await;
    let keys = keys(&server, "own");
    let mut client = Client::of(&server).await;
    let (owner, _) = client.hold(&keys).await;
    let (waiter, _) = client.wait(&keys).await;
    let grant = client.release(&keys, owner).await.grant.unwrap();
    assert_eq!((grant.owner, grant.remaining), (waiter, CLAIM));
    // Trap F18: the reply was lost, the release is sent again.
    let again = client.release(&keys, owner).await;
    assert!(matches!(again.body, Passed::NotHeld { queued: false, before: true, found: Found::Other }));
    assert_eq!(again.grant.unwrap().owner, waiter);
}

#[tokio::test]
async fn an_unclaimed_grant_is_blamed_on_its_client_and_the_lock_moves_on() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "blame");
    let (mut a, mut slow, mut quick) =
        (Client::of(&server).await, Client::of(&server).await, Client::of(&server).await);
    slow.listen().await;
    quick.listen().await;
    let (owner, _) = a.hold(&keys).await;
    let (sleeper, ticket) = slow.wait(&keys).await;
    let (_, _) = slow.wait(&keys).await;
    let (next, _) = quick.wait(&keys).await;
    a.release(&keys, owner).await;
    assert_eq!(slow.granted().await.owner, sleeper);
    // The claim time runs out.
    ask(&mut admin, &["DEL", keys.name()]).await;
    let other = a.owner();
    let reply = a.take(&keys, other, Mode::Try).await.unwrap();
    assert!(matches!(reply.body, Taken::Busy(_)), "{:?}", reply.body);
    assert_eq!(
        quick.granted().await.owner,
        next,
        "ahead of the client that slept, whose second waiter was first"
    );
    assert_eq!(ask(&mut admin, &["HEXISTS", &keys.waiters(), "g"]).await.int(), 1, "the new grant");
    // The sleeper comes back to its place, and is on time again.
    let reply = slow.take(&keys, sleeper, Mode::Wait(Some(ticket))).await.unwrap();
    assert!(matches!(reply.body, Taken::Queued { place: 0, missing: true, .. }));
    quick.release(&keys, next).await;
    assert_eq!(slow.granted().await.owner, sleeper);
    assert_all_expire(&server).await;
}

#[tokio::test]
async fn who_is_late_gets_it_only_if_nobody_else_is_fit() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "late");
    let (mut a, mut late) = (Client::of(&server).await, Client::of(&server).await);
    late.listen().await;
    let (owner, _) = a.hold(&keys).await;
    let (waiter, _) = late.wait(&keys).await;
    let sign = ask(&mut admin, &["HGET", &keys.waiters(), &format!("c:{}", late.id)]).await.text();
    let (_, rest) = sign.split_once(' ').unwrap();
    ask(&mut admin, &["HSET", &keys.waiters(), &format!("c:{}", late.id), &format!("1 {rest}")]).await;
    a.release(&keys, owner).await;
    assert_eq!(late.granted().await.owner, waiter);
}

#[tokio::test]
async fn who_is_deaf_and_a_minute_late_is_removed() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "gone");
    let (mut a, mut gone) = (Client::of(&server).await, Client::of(&server).await);
    let (owner, _) = a.hold(&keys).await;
    let (waiter, _) = gone.wait(&keys).await;
    ask(&mut admin, &["HSET", &keys.waiters(), &format!("c:{}", gone.id), "1 c nowhere"]).await;
    a.release(&keys, owner).await;
    assert_eq!(ask(&mut admin, &["EXISTS", keys.name(), &keys.queue()]).await.int(), 0);
    assert_eq!(ask(&mut admin, &["HEXISTS", &keys.waiters(), &format!("w:{waiter}")]).await.int(), 0);
}

#[tokio::test]
async fn trap_f16_a_broken_counter_frees_the_lock_and_tells_the_waiter() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "counter");
    let (mut a, mut b) = (Client::of(&server).await, Client::of(&server).await);
    b.listen().await;
    let (owner, _) = a.hold(&keys).await;
    let (waiter, ticket) = b.wait(&keys).await;
    for broken in [
        &["LPUSH", "f", "x"][..],
        &["SET", "f", "9223372036854775807"],
        &["SET", "f", "9007199254740990"],
        &["SET", "f", "x"],
    ] {
        ask(&mut admin, &["DEL", &keys.fence()]).await;
        let words: Vec<String> =
            broken.iter().map(|word| if *word == "f" { keys.fence() } else { (*word).to_owned() }).collect();
        admin.call(&words).await;
        ask(
            &mut admin,
            &["HSET", keys.name(), &owner.to_string(), "1", "owner", &format!("o{owner}"), "f", "t1 s1 l1"],
        )
        .await;
        assert!(matches!(a.release(&keys, owner).await.body, Passed::Released { .. }), "{broken:?}");
        assert_eq!(ask(&mut admin, &["EXISTS", keys.name()]).await.int(), 0, "no holder without a token");
        loop {
            match b.pushed().await {
                Push::CounterBroken { owner, .. } => {
                    assert_eq!(owner, waiter);
                    break;
                }
                Push::Missed => {}
                other => panic!("{other:?}"),
            }
        }
        let fault = b.take(&keys, waiter, Mode::Wait(None)).await.unwrap_err();
        assert_eq!(fault.why, Why::Counter, "{fault}");
        assert!(fault.text.contains(&keys.fence()), "{fault}");
        let fresh = a.owner();
        assert_eq!(a.take(&keys, fresh, Mode::Try).await.unwrap_err().why, Why::Counter);
    }
    ask(&mut admin, &["DEL", &keys.fence()]).await;
    assert_all_expire(&server).await;
    assert!(held(&b.take(&keys, waiter, Mode::Wait(Some(ticket))).await.unwrap()).2);
}

#[tokio::test]
async fn the_walk_over_dead_clients_is_bounded() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "hundred");
    let (mut a, mut b) = (Client::of(&server).await, Client::of(&server).await);
    b.listen().await;
    let (owner, _) = a.hold(&keys).await;
    for i in 0..700 {
        let dead = Uuid::new_v4();
        ask(&mut admin, &["ZADD", &keys.queue(), &i.to_string(), &format!("{dead}:1")]).await;
        let wish = format!("30000 5000 x 1 {dead}");
        let sign = format!("9000000000000000 c nowhere:{dead}");
        let (w, c) = (format!("w:{dead}:1"), format!("c:{dead}"));
        ask(&mut admin, &["HSET", &keys.waiters(), &w, &wish, &c, &sign]).await;
    }
    let (waiter, _) = b.wait(&keys).await;
    // Beyond the walk of 512: the release serves nobody, a try is told to look again, and the
    // waiter's own check takes what no one else can be given.
    a.release(&keys, owner).await;
    assert_eq!(ask(&mut admin, &["EXISTS", keys.name()]).await.int(), 0);
    let fresh = a.owner();
    let reply = a.take(&keys, fresh, Mode::Try).await.unwrap();
    let Taken::Busy(seen) = reply.body else { panic!("{:?}", reply.body) };
    assert_eq!(seen.remaining, crate::server::Remaining::Undecided);
    assert!(held(&b.take(&keys, waiter, Mode::Wait(None)).await.unwrap()).2);
    b.release(&keys, waiter).await;
    // Within it, nobody notices.
    ask(&mut admin, &["ZREMRANGEBYRANK", &keys.queue(), "0", "399"]).await;
    let owner = b.owner();
    assert!(!held(&b.take(&keys, owner, Mode::Try).await.unwrap()).2);
    let (waiter, _) = b.wait(&keys).await;
    let grant = b.release(&keys, owner).await.grant.unwrap();
    assert_eq!(grant.owner, waiter);
}
