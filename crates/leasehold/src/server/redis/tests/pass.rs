use super::*;
use crate::server::{Holder, Why};

#[tokio::test]
async fn a_release_without_waiters_leaves_only_the_counter() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "plain");
    let mut client = Client::of(&server).await;
    let (owner, _) = client.hold(&keys).await;
    assert!(matches!(client.release(&keys, owner).await.body, Passed::Released { broken: None }));
    assert_eq!(leasehold_testkit::keys(&mut admin).await, [keys.fence()]);
    let again = client.release(&keys, owner).await.body;
    assert!(matches!(again, Passed::NotHeld { queued: false, before: false, found: Found::Absent }));
}

#[tokio::test]
async fn trap_f19_a_late_take_finds_the_tombstone_of_a_release() {
    let server = TestServer::start().await;
    let keys = keys(&server, "late");
    let mut client = Client::of(&server).await;
    let (owner, _) = client.hold(&keys).await;
    let life = Some(Duration::from_secs(60));
    assert!(matches!(
        client.pass(&keys, Target::Own(owner), life).await.unwrap().body,
        Passed::Released { .. }
    ));
    assert!(matches!(client.take(&keys, owner, Mode::Try).await.unwrap().body, Taken::Void));
    assert_all_expire(&server).await;
}

#[tokio::test]
async fn trap_f20_who_leaves_wakes_the_next_if_the_lock_is_free() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "leave");
    let (mut a, mut b) = (Client::of(&server).await, Client::of(&server).await);
    b.listen().await;
    let _ = a.hold(&keys).await;
    let (first, _) = a.wait(&keys).await;
    let (second, _) = b.wait(&keys).await;
    let reply = a.pass(&keys, Target::Own(first), None).await.unwrap();
    assert!(matches!(reply.body, Passed::NotHeld { queued: true, before: false, found: Found::Other }));
    // Redisson's unlock: the key is gone, and nobody was told.
    ask(&mut admin, &["DEL", keys.name()]).await;
    let gone = a.owner();
    let reply = a.pass(&keys, Target::Own(gone), None).await.unwrap();
    assert!(matches!(reply.body, Passed::NotHeld { queued: false, found: Found::Absent, .. }));
    assert_eq!(b.granted().await.owner, second);
}

#[tokio::test]
async fn trap_f8_force_ends_exactly_what_was_shown() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "force");
    let (mut a, mut b, operator) =
        (Client::of(&server).await, Client::of(&server).await, Client::of(&server).await);
    a.listen().await;
    b.listen().await;
    let (owner, token) = a.hold(&keys).await;
    let (next, _) = b.wait(&keys).await;
    let text = owner.to_string();
    for wrong in [Target::Seen { owner: &text, token: token + 1 }, Target::Seen { owner: "x:1", token }] {
        let reply = operator.pass(&keys, wrong, None).await.unwrap();
        assert!(matches!(reply.body, Passed::NotHeld { found: Found::Other, .. }));
    }
    let seen = Target::Seen { owner: &text, token };
    assert!(matches!(
        operator.pass(&keys, seen, None).await.unwrap().body,
        Passed::Released { broken: None }
    ));
    assert_eq!(b.granted().await.owner, next);
    loop {
        match a.pushed().await {
            Push::Evicted { lock, owner: evicted, token: ended } => {
                assert_eq!((lock.as_str(), evicted, ended), (keys.name(), owner, token));
                break;
            }
            Push::Missed => {}
            other => panic!("{other:?}"),
        }
    }
    // The retry of that request harms nobody.
    assert!(matches!(operator.pass(&keys, seen, None).await.unwrap().body, Passed::NotHeld { .. }));
    assert!(matches!(b.renew(&keys, next, LEASE).await, Ok(Mine::Yes { .. })));
    assert_eq!(ask(&mut admin, &["HGET", &keys.waiters(), "prev"]).await.text(), text);
}

#[tokio::test]
async fn force_ends_a_foreign_record_only_as_it_was_shown() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let client = Client::of(&server).await;
    for (name, write, change) in [
        ("s", &["SET", "k", "1"][..], &["SET", "k", "2"][..]),
        ("h", &["HSET", "k", "b", "2", "a", "1"], &["HSET", "k", "a", "2"]),
        ("z", &["ZADD", "k", "1", "m"], &["SET", "k", "2"]),
    ] {
        let keys = keys(&server, name);
        let on = |words: &[&str]| -> Vec<String> {
            words
                .iter()
                .map(|word| if *word == "k" { keys.name().to_owned() } else { (*word).to_owned() })
                .collect()
        };
        admin.call(&on(write)).await;
        let Some(Holder::Foreign { kind, print, .. }) =
            client.server.look(&keys, WITHIN).await.unwrap().holder
        else {
            panic!()
        };
        let target = Target::Foreign { kind: &kind, print: &print };
        admin.call(&on(change)).await;
        let reply = client.pass(&keys, target, None).await.unwrap();
        assert!(
            matches!(reply.body, Passed::NotHeld { found: Found::Foreign, .. }),
            "{name}: {:?}",
            reply.body
        );
        ask(&mut admin, &["DEL", keys.name()]).await;
        admin.call(&on(write)).await;
        assert!(
            matches!(client.pass(&keys, target, None).await.unwrap().body, Passed::Released { .. }),
            "{name}"
        );
        assert_eq!(ask(&mut admin, &["EXISTS", keys.name()]).await.int(), 0);
    }
}

#[tokio::test]
async fn a_hold_of_ours_is_no_foreign_record() {
    let server = TestServer::start().await;
    let mut client = Client::of(&server).await;
    let keys = keys(&server, "ours");
    let (owner, _) = client.hold(&keys).await;
    let target = Target::Foreign { kind: "hash", print: "" };
    assert!(matches!(client.pass(&keys, target, None).await.unwrap().body, Passed::NotHeld { .. }));
    assert!(matches!(client.renew(&keys, owner, LEASE).await, Ok(Mine::Yes { .. })));
}

#[tokio::test]
async fn a_release_goes_through_whatever_the_side_keys_are() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let mut client = Client::of(&server).await;
    for life in [None, Some(Duration::from_secs(9))] {
        for side in [|keys: &Keys| keys.queue(), |keys: &Keys| keys.waiters()] {
            let keys = keys(&server, "sides");
            ask(&mut admin, &["DEL", &keys.queue(), &keys.waiters()]).await;
            let (owner, _) = client.hold(&keys).await;
            ask(&mut admin, &["SET", &side(&keys), "x"]).await;
            let reply = client.pass(&keys, Target::Own(owner), life).await.unwrap();
            let Passed::Released { broken } = reply.body else { panic!("{:?}", reply.body) };
            assert_eq!(broken, Some(side(&keys)));
            let fault = client.pass(&keys, Target::Own(owner), life).await.unwrap_err();
            assert_eq!(fault.why, Why::WrongType);
            let fresh = client.owner();
            let fault = client.take(&keys, fresh, Mode::Wait(None)).await.unwrap_err();
            assert!(fault.why == Why::WrongType && fault.text.contains(&side(&keys)), "{fault}");
            assert!(!fault.may_have_run);
            assert_eq!(ask(&mut admin, &["EXISTS", keys.name()]).await.int(), 0);
        }
    }
}

#[tokio::test]
async fn old_tombstones_and_signs_are_swept() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "sweep");
    let (mut a, mut b) = (Client::of(&server).await, Client::of(&server).await);
    let _ = a.hold(&keys).await;
    let (waiter, _) = b.wait(&keys).await;
    for i in 0..200 {
        let (v, c) = (format!("v:{}:{i}", a.id), format!("c:{}", Uuid::new_v4()));
        ask(&mut admin, &["HSET", &keys.waiters(), &v, "1", &c, "1 c x"]).await;
    }
    let keep = format!("v:{}:keep", a.id);
    ask(&mut admin, &["HSET", &keys.waiters(), &keep, "9000000000000000"]).await;
    b.take(&keys, waiter, Mode::Wait(None)).await.unwrap();
    let mut left = ask(&mut admin, &["HKEYS", &keys.waiters()]).await.texts();
    left.sort();
    let mut want = [format!("c:{}", b.id), keep, format!("w:{waiter}"), "z".to_owned()];
    want.sort();
    assert_eq!(left, want);
    assert_all_expire(&server).await;
}

#[tokio::test]
async fn what_ends_leaves_neither_wish_nor_grant() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "traces");
    let mut client = Client::of(&server).await;
    let (owner, _) = client.hold(&keys).await;
    let (granted, _) = client.wait(&keys).await;
    let (left, _) = client.wait(&keys).await;
    client.release(&keys, left).await;
    client.release(&keys, owner).await;
    // Given back unclaimed, and nobody else waits.
    assert!(matches!(client.release(&keys, granted).await.body, Passed::Released { broken: None }));
    let mut fields = ask(&mut admin, &["HKEYS", &keys.waiters()]).await.texts();
    fields.sort();
    assert_eq!(fields, [format!("c:{}", client.id), "prev".to_owned()]);
}

#[tokio::test]
async fn who_leaves_a_free_lock_blames_the_sleeper_but_never_itself() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "blamed");
    let (mut a, mut b) = (Client::of(&server).await, Client::of(&server).await);
    b.listen().await;
    let (owner, _) = a.hold(&keys).await;
    b.wait(&keys).await;
    let (next, _) = b.wait(&keys).await;
    b.wait(&keys).await;
    a.release(&keys, owner).await;
    let (waiters, sign) = (keys.waiters(), format!("c:{}", b.id));
    let promise = async |admin: &mut Admin| -> u64 {
        let sign = ask(admin, &["HGET", &waiters, &sign]).await.text();
        sign.split_once(' ').unwrap().0.parse().unwrap()
    };
    let before = promise(&mut admin).await;
    // Its own visit spares it; that of another puts its promise to now.
    for (visitor, spared) in [(&mut b, true), (&mut a, false)] {
        ask(&mut admin, &["DEL", keys.name()]).await;
        let grant = format!("{next} 1");
        ask(&mut admin, &["HSET", &keys.waiters(), "g", &grant]).await;
        let nobody = visitor.owner();
        let at = visitor.release(&keys, nobody).await.at;
        let now = promise(&mut admin).await;
        assert_eq!(now, if spared { before } else { at.0 });
    }
}

#[tokio::test]
async fn no_fingerprint_makes_a_hold_of_ours_foreign() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "print");
    let mut client = Client::of(&server).await;
    client.hold(&keys).await;
    let mut fields = ask(&mut admin, &["HGETALL", keys.name()]).await.pairs();
    fields.sort();
    let print = print_of(&fields);
    let target = Target::Foreign { kind: "hash", print: &print };
    assert!(matches!(
        client.pass(&keys, target, None).await.unwrap().body,
        Passed::NotHeld { found: Found::Other, .. }
    ));
    // The same record without its owner's fact is foreign, and the formula is that of the script.
    ask(&mut admin, &["HSET", keys.name(), "owner", "onobody"]).await;
    fields = ask(&mut admin, &["HGETALL", keys.name()]).await.pairs();
    fields.sort();
    let print = print_of(&fields);
    let target = Target::Foreign { kind: "hash", print: &print };
    assert!(matches!(client.pass(&keys, target, None).await.unwrap().body, Passed::Released { .. }));
}

/// The script's formula, once more: lengths, name and value of each field, sorted by name.
fn print_of(fields: &[(String, String)]) -> String {
    let mut digest = sha1_smol::Sha1::new();
    for (name, value) in fields {
        digest.update(format!("{} {} {name}{value}", name.len(), value.len()).as_bytes());
    }
    digest.digest().to_string()
}
