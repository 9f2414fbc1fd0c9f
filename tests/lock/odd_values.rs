//! Names that hold something else: other libraries' locks, data of another shape, records without an
//! end. Never overwritten, never waited on blindly, never mistaken for a free lock.

use leasehold::{Attempt, ErrorKind, Evicted, Holder, Outcome, Remaining, Seen};
use leasehold_testkit::{Admin, Server, eventually, keys};
use leasehold_tests::{client, take};

use crate::support::{SOON, exists, key, ms, pttl, record, until_waiting};

/// Every shape that is no lock, as commands that make it.
fn shapes(key: &str) -> Vec<(&'static str, Vec<String>)> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    vec![
        ("string", words(&format!("SET {key} somebody's-data"))),
        ("list", words(&format!("RPUSH {key} a b"))),
        ("set", words(&format!("SADD {key} a"))),
        ("zset", words(&format!("ZADD {key} 1 a"))),
        ("stream", words(&format!("XADD {key} * a 1"))),
    ]
}

#[tokio::test]
async fn case_x62_a_name_that_holds_data_is_an_error_and_not_an_endless_wait() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    let lock = client.lock("a").unwrap();
    for (kind, make) in shapes(&key) {
        admin.call(&["DEL", &key]).await;
        assert_eq!(admin.call(&make).await.error(), None);
        let before = admin.call(&["DUMP", &key]).await;
        let waits = async {
            [
                lock.try_acquire().await.unwrap_err(),
                lock.acquire().await.unwrap_err(),
                lock.acquire_within(SOON * 10).await.unwrap_err(),
                lock.wait_until_free().await.unwrap_err(),
            ]
        };
        let errors = tokio::time::timeout(SOON, waits).await.expect("no endless wait");
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Foreign, "{kind}: {error}");
            assert!(error.to_string().contains(lock.name()), "{error}");
        }
        let Seen::Foreign(seen) = lock.inspect().await.unwrap() else { panic!("{kind} is foreign") };
        assert_eq!((seen.kind(), seen.remaining()), (kind, Remaining::NoExpiry));
        assert_eq!(admin.call(&["DUMP", &key]).await, before, "{kind}: not a byte was touched");
        assert_eq!(pttl(&mut admin, &key).await, -1, "{kind}: nor given an end");
    }
    admin.call(&["DEL", &key]).await;
    assert_eq!(take(&lock).await.release().await.unwrap(), Outcome::Released, "and then it is a lock again");
}

#[tokio::test]
async fn case_x62_a_held_lock_that_is_overwritten_with_data_is_lost_and_the_data_stays() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    let guard = take(&client.lock("a").unwrap().renewed(ms(900)).unwrap()).await;
    admin.call(&["SET", &key, "data"]).await;
    tokio::time::timeout(SOON, guard.lost()).await.expect("told at the next renewal");
    drop(guard);
    client.close_within(SOON).await;
    assert_eq!(admin.call(&["GET", &key]).await.text(), "data");
    assert_eq!(pttl(&mut admin, &key).await, -1);
}

#[tokio::test]
async fn case_x62_side_keys_of_another_shape_are_named() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let side = |name: &str, suffix: &str| format!("{{{}}}:{suffix}", key(&server, name));
    let set = async |admin: &mut Admin, key: &str| drop(admin.call(&["SET", key, "not-a-number"]).await);

    let fence = side("a", "fence");
    set(&mut admin, &fence).await;
    let error = client.lock("a").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongKind, "{error}");
    assert!(error.to_string().contains(&fence), "{error}");
    assert!(!exists(&mut admin, &key(&server, "a")).await, "no holder is written without a token");

    let held = take(&client.lock("b").unwrap()).await;
    let queue = side("b", "queue");
    set(&mut admin, &queue).await;
    let waits = client.lock("b").unwrap();
    let error = tokio::time::timeout(SOON, waits.acquire()).await.expect("no endless wait").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongKind, "{error}");
    assert!(error.to_string().contains(&queue), "{error}");
    assert_eq!(held.release().await.unwrap(), Outcome::Released, "whatever is wrong beside it");

    let held = take(&client.lock("c").unwrap()).await;
    let waiters = side("c", "waiters");
    set(&mut admin, &waiters).await;
    let waits = client.lock("c").unwrap();
    let error = tokio::time::timeout(SOON, waits.acquire()).await.expect("no endless wait").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongKind, "{error}");
    assert!(error.to_string().contains(&waiters), "{error}");
    assert_eq!(held.release().await.unwrap(), Outcome::Released);
    assert!(!exists(&mut admin, &key(&server, "c")).await);
}

#[tokio::test]
async fn case_x23_a_foreign_record_without_an_end_is_said_so_and_not_waited_on() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    admin.call(&["HSET", &key, "4f5a:1", "1"]).await; // Redisson's shape, without its lease
    let lock = client.lock("a").unwrap();
    let error = tokio::time::timeout(SOON, lock.acquire()).await.expect("not waited on").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(error.to_string().contains("expiry"), "{error}");
    let Seen::Foreign(seen) = lock.inspect().await.unwrap() else { panic!("foreign") };
    assert_eq!((seen.kind(), seen.remaining()), ("hash", Remaining::NoExpiry));
    assert!(seen.value().contains("4f5a:1"), "{}", seen.value());
    assert_eq!(pttl(&mut admin, &key).await, -1);
}

#[tokio::test]
async fn case_x23_every_key_has_an_end_at_every_stage() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let ends = async |admin: &mut Admin, stage: &str| {
        for key in keys(admin).await {
            assert_ne!(pttl(admin, &key).await, -1, "{key} has no end after: {stage}");
        }
    };
    let lock = two.lock("a").unwrap();
    let guard = take(&one.lock("a").unwrap()).await;
    ends(&mut admin, "take").await;
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    until_waiting(&lock, 1).await;
    ends(&mut admin, "enqueue").await;
    guard.extend_to(SOON * 20).await.unwrap();
    ends(&mut admin, "extend").await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    ends(&mut admin, "hand over").await;
    let next = waiter.await.unwrap();
    ends(&mut admin, "claim").await;
    next.confirm().await.unwrap();
    ends(&mut admin, "renew").await;
    let Attempt::Busy(_) = one.lock("a").unwrap().acquire_within(ms(200)).await.unwrap() else {
        panic!("two holders")
    };
    ends(&mut admin, "give up").await;
    lock.force_release(&lock.inspect().await.unwrap()).await.unwrap();
    ends(&mut admin, "force").await;
    drop(next);
    one.close_within(SOON).await;
    two.close_within(SOON).await;
    ends(&mut admin, "close").await;
}

#[tokio::test]
async fn a_redisson_record_is_respected_shown_as_foreign_and_waited_for() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    let theirs = "285475da-9152-4c83-822a-67ee2f116a79:52";
    admin.call(&["HSET", &key, theirs, "1"]).await;
    admin.call(&["PEXPIRE", &key, "2500"]).await;
    let lock = client.lock("a").unwrap();
    let Attempt::Busy(busy) = lock.try_acquire().await.unwrap() else { panic!("two holders") };
    assert_eq!(busy.holder(), Some(&Holder::Foreign { kind: "hash".to_owned() }));
    assert!(matches!(busy.remaining(), Remaining::For(span) if span <= ms(2_500)));
    let Seen::Foreign(seen) = lock.inspect().await.unwrap() else { panic!("foreign") };
    assert!(seen.value().contains(theirs), "{}", seen.value());
    let guard = tokio::time::timeout(SOON, lock.acquire()).await.expect("its lease ended").unwrap();
    assert!(record(&mut admin, &key).await.iter().all(|(field, _)| field != theirs));
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn force_removes_exactly_the_foreign_record_that_was_seen() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    let lock = client.lock("a").unwrap();
    for (kind, make, change) in [
        ("hash", ["HSET", &key, "x:1", "1"], ["HSET", &key, "x:1", "2"]),
        ("string", ["SET", &key, "v1", "KEEPTTL"], ["SET", &key, "v2", "KEEPTTL"]),
    ] {
        admin.call(&make).await;
        let seen = lock.inspect().await.unwrap();
        admin.call(&change).await;
        assert_eq!(lock.force_release(&seen).await.unwrap(), Evicted::Changed, "{kind}");
        assert!(exists(&mut admin, &key).await, "{kind}: another by now");
        let seen = lock.inspect().await.unwrap();
        assert_eq!(lock.force_release(&seen).await.unwrap(), Evicted::Freed, "{kind}");
        assert!(!exists(&mut admin, &key).await, "{kind}");
    }
}

#[tokio::test]
async fn a_waiter_behind_a_foreign_record_is_served_when_that_is_deleted() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let key = key(&server, "a");
    admin.call(&["HSET", &key, "x:1", "1"]).await;
    admin.call(&["PEXPIRE", &key, "2000"]).await;
    let lock = client.lock("a").unwrap();
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    eventually(
        "it waits",
        SOON,
        async || matches!(lock.inspect().await.unwrap(), Seen::Foreign(seen) if seen.waiters() == 1),
    )
    .await;
    // Nobody of ours sees the deletion; the next look does, when the time that was told is over.
    admin.call(&["DEL", &key]).await;
    let guard = tokio::time::timeout(SOON, waiter).await.expect("served").unwrap();
    assert!(guard.confirm().await.is_ok());
}
