//! Fencing tokens: strictly increasing, exact, and one for each hold.

use std::sync::{Arc, Mutex};

use leasehold::{Evicted, Outcome};
use leasehold_testkit::Server;
use leasehold_tests::{client, take};
use tokio::task::JoinSet;

use crate::support::{busy, key, ms, record, seen};

#[tokio::test]
async fn tokens_rise_strictly_whoever_gets_the_lock_and_however_it_ended() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let clients = [client(&server).await, client(&server).await];
    let ops = clients[0].lock("a").unwrap();
    let mut last = 0;
    for round in 0..200 {
        let lock = clients[round % 2].lock("a").unwrap();
        let guard = lock.acquire().await.unwrap();
        let now = guard.token().sequence();
        assert!(now > last, "round {round}: {now} after {last}");
        last = now;
        match round % 4 {
            0 => assert_eq!(guard.release().await.unwrap(), Outcome::Released),
            1 => drop(guard),
            2 => {
                let seen = ops.inspect().await.unwrap();
                assert_eq!(ops.force_release(&seen).await.unwrap(), Evicted::Freed);
            }
            _ => {
                admin.call(&["DEL", &key(&server, "a")]).await;
            }
        }
    }
}

#[tokio::test]
async fn sixteen_digits_are_the_same_number_everywhere() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    for _ in 0..20 {
        let guard = take(&lock).await;
        let token = guard.token();
        let digits = token.sequence().to_string();
        assert_eq!(digits.len(), 16, "{digits}");
        assert_eq!(seen(&lock).await.holder().token(), token.sequence());
        assert_eq!(busy(&lock).await.holder().unwrap().client().unwrap().token(), token.sequence());
        let facts = record(&mut admin, &key(&server, "a")).await;
        let facts = &facts.iter().find(|(field, _)| field == "f").unwrap().1;
        assert!(facts.starts_with(&format!("t{digits} ")), "{facts}");
        let counter = admin.call(&["GET", &fence(&server, "a")]).await.text();
        assert_eq!(counter, digits, "not a digit was rounded on the way through Lua");
        assert_eq!(token.resource(), lock.name());
        assert_eq!(token.to_string().parse::<leasehold::Token>().unwrap(), token);
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

#[tokio::test]
async fn a_lost_counter_still_gives_a_larger_token() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    let mut last = 0;
    for loss in ["none", "counter", "everything"] {
        match loss {
            "counter" => drop(admin.call(&["DEL", &fence(&server, "a")]).await),
            "everything" => drop(admin.call(&["FLUSHALL"]).await),
            _ => {}
        }
        let guard = take(&lock).await;
        assert!(guard.token().sequence() > last, "after the loss of {loss}");
        last = guard.token().sequence();
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

#[tokio::test]
async fn a_counter_ahead_of_the_clock_goes_on_counting() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap();
    let ahead = 9_007_199_254_000_000_u64; // near 2^53, where a float would begin to skip
    admin.call(&["SET", &fence(&server, "a"), &ahead.to_string()]).await;
    for n in 1..=5 {
        let guard = take(&lock).await;
        assert_eq!(guard.token().sequence(), ahead + n);
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

#[tokio::test]
async fn one_hold_has_one_token_through_renewals_re_entry_and_moves_of_its_end() {
    let server = Server::start().await;
    let client = client(&server).await;
    let lock = client.lock("a").unwrap().renewed(ms(1_500)).unwrap();
    let guard = take(&lock).await;
    let token = guard.token();
    let inner = guard.reenter();
    guard.extend_to(ms(2_500)).await.unwrap();
    tokio::time::sleep(ms(2_000)).await;
    guard.confirm().await.unwrap();
    assert_eq!((guard.token(), inner.token()), (token.clone(), token.clone()));
    assert_eq!(seen(&lock).await.holder().token(), token.sequence());
}

#[tokio::test]
async fn a_handed_over_hold_has_a_larger_token_than_the_one_before() {
    let server = Server::start().await;
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    for n in 0..30 {
        let lock = clients[n % 3].lock("a").unwrap();
        let tokens = tokens.clone();
        waiters.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            tokens.lock().unwrap().push(guard.token().sequence()); // while it is held: in their order
            tokio::task::yield_now().await;
            assert_eq!(guard.release().await.unwrap(), Outcome::Released);
        });
    }
    waiters.join_all().await;
    let tokens = tokens.lock().unwrap();
    assert_eq!(tokens.len(), 30);
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

fn fence(server: &Server, name: &str) -> String {
    format!("{{{}}}:fence", key(server, name))
}
