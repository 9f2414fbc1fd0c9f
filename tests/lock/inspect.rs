//! What others see of a hold, and the release by force of exactly what was seen.

use std::time::{Duration, UNIX_EPOCH};

use leasehold::{Attempt, Evicted, HoldState, Holder, LostReason, Outcome, Remaining, Seen};
use leasehold_testkit::{Server, eventually, stats};
use leasehold_tests::{client, options, take};

use crate::support::{SOON, busy, exists, key, ms, pttl, record, seen, until_free, until_waiting};

#[tokio::test]
async fn inspection_says_who_since_when_how_long_what_for_and_how_many_wait() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let one = options(&server).label("web-3").lease(Duration::from_secs(20)).connect().await.unwrap();
    let two = client(&server).await;
    let guard = take(&one.lock("a").unwrap()).await;
    let lock = two.lock("a").unwrap();
    tokio::time::sleep(ms(30)).await; // so that there is an age to show
    let hold = seen(&lock).await;
    let holder = hold.holder();
    assert_eq!(holder.owner(), guard.owner_id());
    assert_eq!(holder.token(), guard.token().sequence());
    assert_eq!(holder.label(), Some("web-3"));
    assert_eq!(holder.process(), Some(std::process::id()));
    assert!(holder.host().is_some_and(|host| !host.is_empty()));
    assert_eq!(holder.lease(), Some(Duration::from_secs(20)));
    let held_for = holder.held_for().unwrap();
    assert!(held_for >= ms(25) && held_for < SOON, "{held_for:?}");
    // By the server's clock, which is the only one that may say so.
    let now = admin.call(&["TIME"]).await.texts()[0].parse::<u64>().unwrap();
    let since = holder.since().unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!((now - 10..=now).contains(&since), "{since} of {now}");
    let Remaining::For(remaining) = hold.remaining() else { panic!("{hold:?}") };
    assert!(remaining > Duration::from_secs(10) && remaining <= Duration::from_secs(20));
    assert!(hold.renewed_ago().unwrap() < SOON);
    assert_eq!(hold.waiters(), 0);

    let waiters = [lock.clone(), lock.clone()].map(|lock| tokio::spawn(async move { lock.acquire().await }));
    until_waiting(&lock, 2).await;
    for waiter in waiters {
        waiter.abort();
    }
    until_waiting(&lock, 0).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    assert!(matches!(lock.inspect().await.unwrap(), Seen::Free { waiters: 0 }));
}

#[tokio::test]
async fn a_renewal_shows_in_what_others_see() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap().renewed(ms(1_200)).unwrap();
    let guard = take(&lock).await;
    let mut oldest = Duration::ZERO;
    eventually("it was renewed a moment ago, after it was not", SOON, async || {
        let ago = seen(&lock).await.renewed_ago().unwrap();
        oldest = oldest.max(ago);
        oldest > ago + ms(100)
    })
    .await;
    let hold = seen(&lock).await;
    assert!(hold.holder().held_for().unwrap() > ms(300), "its age goes on");
    assert_eq!(hold.holder().token(), guard.token().sequence());
}

#[tokio::test]
async fn a_handed_over_hold_shows_its_label_once_it_is_claimed() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap().label("first").unwrap()).await;
    let lock = two.lock("a").unwrap().label("second").unwrap();
    assert_eq!(seen(&lock).await.holder().label(), Some("first"));
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    until_waiting(&lock, 1).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    let next = waiter.await.unwrap();
    let hold = seen(&lock).await;
    assert_eq!(hold.holder().label(), Some("second"));
    assert_eq!(hold.holder().owner(), next.owner_id());
    assert_eq!(hold.holder().token(), next.token().sequence());
}

#[tokio::test]
async fn busy_says_who_since_when_how_long_and_which_place() {
    let server = Server::start().await;
    let one = options(&server).label("web-3").connect().await.unwrap();
    let (two, three) = (client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap()).await;
    let told = busy(&two.lock("a").unwrap()).await;
    let Some(Holder::Client(holder)) = told.holder() else { panic!("{told:?}") };
    assert_eq!(holder.owner(), guard.owner_id());
    assert_eq!((holder.label(), holder.token()), (Some("web-3"), guard.token().sequence()));
    assert!(holder.held_for().is_some() && holder.since().is_some());
    let Remaining::For(remaining) = told.remaining() else { panic!("{told:?}") };
    assert!(remaining > Duration::from_secs(20) && remaining <= Duration::from_secs(30));
    assert_eq!(told.place(), None, "a try waits nowhere");
    let text = told.to_string();
    assert!(text.contains("web-3") && text.contains(&std::process::id().to_string()), "{text}");

    let patient = two.lock("a").unwrap();
    let first = tokio::spawn(async move { patient.acquire().await });
    until_waiting(&three.lock("a").unwrap(), 1).await;
    let Attempt::Busy(told) = three.lock("a").unwrap().acquire_within(ms(400)).await.unwrap() else {
        panic!("two holders")
    };
    assert_eq!(told.place(), Some(2), "behind the first waiter");
    assert_eq!(told.holder().unwrap().client().unwrap().owner(), guard.owner_id());
    assert!(told.to_string().contains("place 2"), "{told}");
    until_waiting(&three.lock("a").unwrap(), 1).await;
    first.abort();
}

#[tokio::test]
async fn case_x23_a_hold_whose_expiry_was_taken_away_is_shown_so_and_gets_it_back() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let key = key(&server, "a");
    let guard = take(&one.lock("a").unwrap().renewed(Duration::from_secs(6)).unwrap()).await;
    assert_eq!(admin.call(&["PERSIST", &key]).await.int(), 1);
    let lock = two.lock("a").unwrap();
    assert_eq!(seen(&lock).await.remaining(), Remaining::NoExpiry);
    assert_eq!(busy(&lock).await.remaining(), Remaining::NoExpiry);
    assert_eq!(pttl(&mut admin, &key).await, -1, "looking changes nothing");
    eventually("a renewal puts it back", SOON, async || pttl(&mut admin, &key).await > 0).await;
    assert!(guard.is_held());
}

#[tokio::test]
async fn force_frees_exactly_what_was_seen() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (lock, ops) = (one.lock("a").unwrap(), two.lock("a").unwrap());
    let key = key(&server, "a");

    let free = ops.inspect().await.unwrap();
    let guard = take(&lock).await;
    assert_eq!(ops.force_release(&free).await.unwrap(), Evicted::Changed, "nobody was seen there");
    let old = ops.inspect().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    assert_eq!(ops.force_release(&old).await.unwrap(), Evicted::Changed, "it is free by now");

    // The same client, the same name: another hold all the same.
    let later = take(&lock).await;
    let before = record(&mut admin, &key).await;
    assert_eq!(ops.force_release(&old).await.unwrap(), Evicted::Changed);
    assert_eq!(record(&mut admin, &key).await, before, "a later hold is untouched");
    assert!(later.confirm().await.is_ok());

    let seen = ops.inspect().await.unwrap();
    assert_eq!(ops.force_release(&seen).await.unwrap(), Evicted::Freed);
    assert!(!exists(&mut admin, &key).await);
    assert_eq!(ops.force_release(&seen).await.unwrap(), Evicted::Changed, "once");
    let next = take(&ops).await;
    assert!(matches!(later.release().await.unwrap(), Outcome::Lost(_)));
    assert!(next.confirm().await.is_ok());
}

#[tokio::test]
async fn an_evicted_holder_is_told_by_push_long_before_its_next_renewal() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    // Its push channel is opened by its first wait.
    let first = take(&two.lock("warm").unwrap()).await;
    let Attempt::Busy(_) = one.lock("warm").unwrap().acquire_within(ms(300)).await.unwrap() else {
        panic!("two holders")
    };
    drop(first);

    // Renewals are 10 s apart.
    let guard = take(&one.lock("a").unwrap()).await;
    let cancelled = guard.cancellation_token();
    let states = guard.states();
    let ops = two.lock("a").unwrap();
    let seen = ops.inspect().await.unwrap();
    assert_eq!(ops.force_release(&seen).await.unwrap(), Evicted::Freed);
    let reason = tokio::time::timeout(Duration::from_secs(5), guard.lost()).await.expect("told by push");
    assert_eq!(reason, LostReason::Taken);
    assert!(cancelled.is_cancelled());
    assert_eq!(*states.borrow(), HoldState::Lost(LostReason::Taken));
    assert!(!guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Outcome::Lost(LostReason::Taken));
}

#[tokio::test]
async fn an_evicted_holder_without_a_push_channel_is_told_at_its_next_renewal() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = take(&one.lock("a").unwrap().renewed(ms(1_200)).unwrap()).await;
    let ops = two.lock("a").unwrap();
    assert_eq!(ops.force_release(&ops.inspect().await.unwrap()).await.unwrap(), Evicted::Freed);
    let next = take(&ops).await;
    assert_eq!(tokio::time::timeout(SOON, guard.lost()).await.unwrap(), LostReason::Taken);
    assert!(next.confirm().await.is_ok());
}

#[tokio::test]
async fn force_serves_the_next_waiter() {
    let server = Server::start().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let stuck = take(&one.lock("a").unwrap()).await;
    let lock = two.lock("a").unwrap();
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    until_waiting(&lock, 1).await;
    let ops = client(&server).await.lock("a").unwrap();
    assert_eq!(ops.force_release(&ops.inspect().await.unwrap()).await.unwrap(), Evicted::Freed);
    let next = tokio::time::timeout(SOON, waiter).await.expect("served by the eviction").unwrap();
    assert!(next.token() > stuck.token());
    assert!(next.confirm().await.is_ok());
}

#[tokio::test]
async fn waiting_until_free_takes_nothing_and_delays_nobody() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = two.lock("a").unwrap();
    tokio::time::timeout(SOON, lock.wait_until_free()).await.unwrap().unwrap();
    until_free(&lock).await;

    let guard = take(&one.lock("a").unwrap()).await;
    let onlooker = tokio::spawn({
        let lock = lock.clone();
        async move { lock.wait_until_free().await.unwrap() }
    });
    until_waiting(&lock, 1).await;
    let behind = tokio::spawn({
        let lock = one.lock("a").unwrap();
        async move { lock.acquire().await.unwrap() }
    });
    until_waiting(&lock, 2).await;
    assert!(!onlooker.is_finished(), "it is held");
    let before = stats(&mut admin).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    tokio::time::timeout(SOON, onlooker).await.unwrap().unwrap();
    // Whom it stood before is served by its passing on, not by a lease that ends.
    let next = tokio::time::timeout(SOON, behind).await.expect("passed on at once").unwrap();
    assert!(next.confirm().await.is_ok());
    let sent = (stats(&mut admin).await - before).scripts();
    assert!(sent < 20, "no polling: {sent} calls");
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
    assert!(lock.inspect().await.unwrap().is_free());
}
