use super::*;
use crate::server::{Contention, Holder, Remaining, Subscribers};

#[tokio::test]
async fn a_free_lock_is_written_with_its_facts_and_an_end() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "free");
    let mut client = Client::of(&server).await;
    let owner = client.owner();
    let reply = client.take(&keys, owner, Mode::Try).await.unwrap();
    let (token, remaining, unclaimed) = held(&reply);
    assert_eq!((remaining, unclaimed), (LEASE, false));
    assert_eq!(token, reply.at.0, "a first token is the server's clock");

    let hash = ask(&mut admin, &["HGETALL", keys.name()]).await.pairs();
    let fact = |name: &str| hash.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone());
    assert_eq!(hash.len(), 4);
    assert_eq!(fact(&owner.to_string()).as_deref(), Some("1"), "Redisson's record");
    assert_eq!(fact("owner"), Some(format!("o{owner}")));
    assert_eq!(fact("f"), Some(format!("t{token} s{token} l30000")));
    assert_eq!(fact("who").as_deref(), Some("wtest"));
    for (field, value) in hash.iter().filter(|(field, _)| !field.contains(':')) {
        assert!(
            value.starts_with(|c: char| c.is_ascii_alphabetic()) && value.len() <= 64,
            "{field}: {value}"
        );
    }
    assert_eq!(ask(&mut admin, &["OBJECT", "ENCODING", keys.name()]).await.text(), "listpack");
    assert_eq!(ask(&mut admin, &["GET", &keys.fence()]).await.text(), token.to_string());
    assert_all_expire(&server).await;
}

#[tokio::test]
async fn trap_f3_a_repeated_take_extends_nothing() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "again");
    let mut client = Client::of(&server).await;
    let (owner, token) = client.hold(&keys).await;
    ask(&mut admin, &["PEXPIRE", keys.name(), "5000"]).await;
    for mode in [Mode::Try, Mode::Wait(None), Mode::Wait(Some(Ticket(7)))] {
        let (same, remaining, unclaimed) = held(&client.take(&keys, owner, mode).await.unwrap());
        assert_eq!((same, unclaimed), (token, false));
        assert!(remaining <= Duration::from_secs(5));
    }
    assert_eq!(ask(&mut admin, &["EXISTS", &keys.queue()]).await.int(), 0);
}

#[tokio::test]
async fn a_taken_lock_names_its_holder() {
    let server = TestServer::start().await;
    let keys = keys(&server, "busy");
    let (mut a, mut b) = (Client::of(&server).await, Client::of(&server).await);
    let (first, token) = a.hold(&keys).await;
    let other = b.owner();
    let reply = b.take(&keys, other, Mode::Try).await.unwrap();
    let Taken::Busy(Contention { remaining: Remaining::For(_), holder: Some(holder) }) = reply.body else {
        panic!("{:?}", reply.body)
    };
    let Holder::Ours { owner, token: shown, since: Some(_), lease: Some(LEASE), who } = holder else {
        panic!("{holder:?}")
    };
    assert_eq!((owner, shown, who.as_str()), (first.to_string(), token, "wtest"));
    assert!(reply.grant.is_none());
    // Trap F18: the same reply to another owner of the holder's client carries the hold.
    let second = a.owner();
    let grant = a.take(&keys, second, Mode::Try).await.unwrap().grant.unwrap();
    assert_eq!((grant.owner, grant.token), (first, token));
}

#[tokio::test]
async fn waiters_stand_in_line_and_keep_their_place() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "line");
    let (mut a, mut b) = (Client::of(&server).await, Client::of(&server).await);
    let _ = a.hold(&keys).await;
    b.listen().await;
    let (one, first) = b.wait(&keys).await;
    let (_, second) = b.wait(&keys).await;
    assert!(first < second);
    for mode in [Mode::Wait(None), Mode::Wait(Some(first))] {
        let reply = b.take(&keys, one, mode).await.unwrap();
        let Taken::Queued { ticket, place, missing, subscribers, seen } = reply.body else { panic!() };
        assert_eq!((ticket, place, missing, subscribers), (first, 0, false, Subscribers::Count(1)));
        assert!(matches!(seen.remaining, Remaining::For(left) if left > Duration::from_secs(20)));
    }
    // Trap F15: a lost queue is rebuilt from tickets.
    ask(&mut admin, &["DEL", &keys.queue(), &keys.waiters()]).await;
    let (late, _) = b.wait(&keys).await;
    let reply = b.take(&keys, one, Mode::Wait(Some(first))).await.unwrap();
    assert!(matches!(reply.body, Taken::Queued { place: 0, missing: true, ticket, .. } if ticket == first));
    let reply = b.take(&keys, late, Mode::Wait(None)).await.unwrap();
    assert!(matches!(reply.body, Taken::Queued { place: 1, .. }));
    assert_all_expire(&server).await;
    // A wish stays under 64 bytes: beyond that W takes half as much again.
    for (field, value) in ask(&mut admin, &["HGETALL", &keys.waiters()]).await.pairs() {
        assert!(!field.starts_with("w:") || value.len() < 64, "{field} = {value}");
    }
}

#[tokio::test]
async fn a_tombstone_refuses_its_owner_for_ever() {
    let server = TestServer::start().await;
    let keys = keys(&server, "void");
    let mut client = Client::of(&server).await;
    let owner = client.owner();
    let minute = Some(Duration::from_secs(60));
    let reply = client.pass(&keys, Target::Own(owner), minute).await.unwrap();
    assert!(matches!(reply.body, Passed::NotHeld { queued: false, before: false, found: Found::Absent }));
    for mode in [Mode::Try, Mode::Wait(None)] {
        assert!(matches!(client.take(&keys, owner, mode).await.unwrap().body, Taken::Void));
    }
    client.hold(&keys).await;
    assert_all_expire(&server).await;
}

#[tokio::test]
async fn trap_f24_a_try_gets_past_waiters_that_nobody_can_reach() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "dead");
    let (mut a, mut deaf) = (Client::of(&server).await, Client::of(&server).await);
    let _ = a.hold(&keys).await;
    let (waiting, _) = deaf.wait(&keys).await;
    ask(&mut admin, &["DEL", keys.name()]).await;
    let _ = a.hold(&keys).await;
    assert_eq!(ask(&mut admin, &["ZCARD", &keys.queue()]).await.int(), 1, "it keeps its place");
    ask(&mut admin, &["DEL", keys.name()]).await;
    // Its own check is answered: the reply reaches it, whatever its subscription.
    let reply = deaf.take(&keys, waiting, Mode::Wait(None)).await.unwrap();
    assert_eq!(held(&reply).1, CLAIM);
    assert!(held(&reply).2, "won by a hand-over");
    assert_all_expire(&server).await;
}

#[tokio::test]
async fn foreign_records_stand_in_the_way_and_are_shown() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let mut client = Client::of(&server).await;
    for (name, words, kind) in [
        ("s", &["SET", "t", "a value"][..], "string"),
        ("h", &["HSET", "t", "3f:1", "1"], "hash"),
        ("l", &["RPUSH", "t", "x"], "list"),
    ] {
        let keys = keys(&server, name);
        let words: Vec<&str> =
            words.iter().map(|word| if *word == "t" { keys.name() } else { word }).collect();
        ask(&mut admin, &words).await;
        let owner = client.owner();
        let reply = client.take(&keys, owner, Mode::Wait(None)).await.unwrap();
        let Taken::Queued { seen, .. } = reply.body else { panic!("{:?}", reply.body) };
        assert_eq!(seen.remaining, Remaining::NoExpiry);
        assert!(matches!(seen.holder, Some(Holder::Foreign { kind: shown, .. }) if shown == kind));
        let looked = client.server.look(&keys, WITHIN).await.unwrap();
        assert_eq!((looked.remaining, looked.waiters), (Remaining::NoExpiry, 1));
        let Some(Holder::Foreign { shown, print, .. }) = looked.holder else { panic!() };
        assert_eq!(print.len(), if kind == "list" { 0 } else { 40 });
        assert_eq!(
            shown,
            ["a value", "3f:1=1", ""][["s", "h", "l"].iter().position(|n| *n == name).unwrap()]
        );
        // The waiter can leave.
        let reply = client.pass(&keys, Target::Own(owner), None).await.unwrap();
        assert!(matches!(reply.body, Passed::NotHeld { queued: true, found: Found::Foreign, .. }));
    }
}

#[tokio::test]
async fn trap_f7_sixteen_digits_survive_every_path() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "digits");
    let mut client = Client::of(&server).await;
    // Ahead of the clock, so that INCR decides, with a last digit that %.14g would drop.
    let mut last = 8_999_999_999_999_990_u64;
    ask(&mut admin, &["SET", &keys.fence(), &last.to_string()]).await;
    for _ in 0..9 {
        let (owner, token) = client.hold(&keys).await;
        assert_eq!(token, last + 1);
        assert_eq!(held(&client.take(&keys, owner, Mode::Try).await.unwrap()).0, token);
        assert!(
            matches!(client.renew(&keys, owner, LEASE).await, Ok(Mine::Yes { token: told, .. }) if told == token)
        );
        assert!(
            matches!(client.claim(&keys, owner, false).await, Mine::Yes { token: told, .. } if told == token)
        );
        let looked = client.server.look(&keys, WITHIN).await.unwrap().holder;
        assert!(matches!(looked, Some(Holder::Ours { token: told, .. }) if told == token));
        // A hand-over, in the reply.
        let (waiter, ticket) = client.wait(&keys).await;
        assert!(ticket.0 > 1_700_000_000_000_000);
        let grant = client.release(&keys, owner).await.grant.unwrap();
        assert_eq!((grant.owner, grant.token), (waiter, token + 1));
        assert_all_expire(&server).await;
        client.release(&keys, waiter).await;
        last = token + 1;
    }
}

#[tokio::test]
async fn plain_numbering_counts_and_stays() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "plain");
    let tuning = Tuning { fence_ttl: Duration::ZERO, ..Tuning::default() };
    let mut client = Client::connect(server.url(), server.prefix(), tuning).await.unwrap();
    for token in 1..4 {
        let (owner, issued) = client.hold(&keys).await;
        assert_eq!(issued, token);
        client.release(&keys, owner).await;
    }
    assert_eq!(ask(&mut admin, &["PTTL", &keys.fence()]).await.int(), -1);
}

#[tokio::test]
async fn a_ticket_is_behind_the_last_whatever_the_clock_says() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "ahead");
    let mut client = Client::of(&server).await;
    client.hold(&keys).await;
    let (first, _) = client.wait(&keys).await;
    // As after a step back of the clock.
    let ahead = 8_999_999_999_999_990_u64;
    ask(&mut admin, &["ZADD", &keys.queue(), &ahead.to_string(), &first.to_string()]).await;
    assert_eq!(client.wait(&keys).await.1, Ticket(ahead + 1));
}

#[tokio::test]
async fn who_takes_a_free_lock_clears_a_grant_that_was_never_claimed() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "stale");
    let mut client = Client::of(&server).await;
    let (owner, _) = client.hold(&keys).await;
    client.wait(&keys).await;
    client.release(&keys, owner).await;
    ask(&mut admin, &["DEL", keys.name()]).await;
    let grant = ask(&mut admin, &["HGET", &keys.waiters(), "g"]).await.maybe_text();
    assert!(grant.is_some());
    client.hold(&keys).await;
    assert!(ask(&mut admin, &["HGET", &keys.waiters(), "g"]).await.is_nil());
}
