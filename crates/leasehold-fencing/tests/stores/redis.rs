//! Fenced calls on a real server.

use std::time::Duration;

use fred::error::Error;
use leasehold_fencing::{FenceError, FencedCommand, FencedStore, RedisClaim, RedisFence, Token, conformance};
use leasehold_testkit::{Direction, Relay, Server, eventually};

use crate::support::redis::{client, client_at};
use crate::support::tokens::token;

fn get(key: &str) -> FencedCommand {
    FencedCommand::new("GET").key(key)
}

fn set(key: &str, value: impl AsRef<[u8]>) -> FencedCommand {
    FencedCommand::new("SET").key(key).arg(value)
}

struct Shelf(RedisFence);

impl FencedStore for Shelf {
    type Error = Error;
    type Claim = RedisClaim;

    async fn claim(&self, token: &Token) -> Result<RedisClaim, FenceError<Error>> {
        self.0.claim(token, format!("mark:{}", token.resource())).await
    }

    async fn read(&self, claim: &RedisClaim) -> Result<Option<Vec<u8>>, FenceError<Error>> {
        let value = claim.call(get(&format!("value:{}", claim.token().resource()))).await?;
        Ok(value.into_bytes().map(|bytes| bytes.to_vec()))
    }

    async fn write(&self, claim: &RedisClaim, value: &[u8]) -> Result<(), FenceError<Error>> {
        let key = format!("value:{}", claim.token().resource());
        claim.call(set(&key, value)).await.map(drop)
    }
}

#[tokio::test]
async fn redis_conforms() {
    let server = Server::own().await;
    conformance(&Shelf(RedisFence::new(client(&server).await, "run")), "run").await.unwrap();
}

#[tokio::test]
async fn claim_and_read_are_one_and_a_zombie_is_refused_at_each_step() {
    let server = Server::own().await;
    let fence = RedisFence::new(client(&server).await, "stock");
    for pause in 0..3_u64 {
        let (mark, key) = (format!("mark:{pause}"), format!("stock:{pause}"));
        let (old, new) = (token("stock:1", 7, 1), token("stock:1", 8, 2));
        let successor = async || {
            let (claim, seen) = fence.claim_and_call(&new, &mark, get(&key)).await.unwrap();
            claim.call(set(&key, (seen.as_u64().unwrap_or(0) + 1).to_string())).await.unwrap();
        };
        let mut accepted = 1;
        if pause == 0 {
            successor().await;
        }
        match fence.claim_and_call(&old, &mark, get(&key)).await {
            Ok((claim, seen)) => {
                if pause == 1 {
                    successor().await;
                }
                let next = (seen.as_u64().unwrap_or(0) + 1).to_string();
                accepted += u64::from(claim.call(set(&key, next)).await.is_ok());
                if pause == 2 {
                    successor().await;
                }
                let last = claim.call(set(&key, "99")).await;
                assert!(matches!(last, Err(FenceError::Stale { .. })), "{last:?}");
            }
            Err(refused) => assert!(pause == 0 && refused.is_refused(), "{refused}"),
        }
        let twin = token("stock:1", 8, 3);
        let twin = fence.claim(&twin, &mark).await;
        assert!(matches!(twin, Err(FenceError::Duplicate { .. })), "{twin:?}");
        let (_, value) = fence.claim_and_call(&new, &mark, get(&key)).await.unwrap();
        assert_eq!(value.as_u64(), Some(accepted), "paused before step {pause}");
    }
}

#[tokio::test]
async fn marks_that_are_missing_broken_or_of_others_let_nothing_through() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let fence = RedisFence::new(client(&server).await, "stock");
    let mine = token("stock:1", 7, 1);
    let claim = fence.claim(&mine, "mark").await.unwrap();

    let other = fence.claim(&token("stock:2", 99, 1), "mark").await;
    assert!(matches!(other, Err(FenceError::WrongResource { .. })), "{other:?}");
    let other = fence.claim(&token("invoices:2", 99, 1), "mark").await;
    assert!(matches!(other, Err(FenceError::WrongResource { .. })), "{other:?}");

    admin.call(&["DEL", "mark"]).await;
    let void = claim.call(set("value", "1")).await;
    assert!(matches!(void, Err(FenceError::NoClaim { .. })), "{void:?}");

    let holder = "01".repeat(16);
    for broken in ["", "7", "stock:1@7", "stock:1@7:01", "stock:1@x:", &format!("stock:1@-7:{holder}")] {
        admin.call(&["SET", "mark", broken]).await;
        let outcome = claim.call(set("value", "1")).await;
        assert!(matches!(outcome, Err(FenceError::Store(_))), "{broken}: {outcome:?}");
    }
    // Beyond 2^53 two numbers are one double: still larger than any token.
    for beyond in ["9007199254740992", "9007199254740993", "9223372036854775807", "9999999999999999999"] {
        admin.call(&["SET", "mark", &format!("stock:1@{beyond}:{holder}")]).await;
        let last = token("stock:1", Token::MAX_SEQUENCE, 1);
        let outcome = fence.claim(&last, "mark").await;
        assert!(matches!(outcome, Err(FenceError::Stale { .. })), "{beyond}: {outcome:?}");
    }
    admin.call(&["DEL", "mark"]).await;
    admin.call(&["LPUSH", "mark", "x"]).await;
    let outcome = claim.call(set("value", "1")).await;
    assert!(matches!(outcome, Err(FenceError::Store(_))), "{outcome:?}");
    assert_eq!(admin.call(&["EXISTS", "value"]).await.int(), 0);
}

#[tokio::test]
async fn replies_come_through_and_a_failed_command_keeps_the_claim() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let fence = RedisFence::new(client(&server).await, "stock").keep_marks(Duration::from_secs(60));
    let mine = token("stock:1", 7, 1);
    let (claim, nothing) = fence.claim_and_call(&mine, "mark", get("none")).await.unwrap();
    assert!(nothing.is_null());
    let push = FencedCommand::new("RPUSH").key("list").arg("a").arg("b\0\r\n");
    assert_eq!(claim.call(push).await.unwrap().as_u64(), Some(2));
    let range = FencedCommand::new("LRANGE").key("list").arg("0").arg("-1");
    assert_eq!(claim.call(range).await.unwrap().into_array().len(), 2);
    claim.call(FencedCommand::new("INCR").key("list")).await.unwrap_err();
    claim.call(FencedCommand::new("NONSENSE")).await.unwrap_err();
    claim.call(set("value", "1")).await.unwrap();
    let left = admin.call(&["PTTL", "mark"]).await.int();
    assert!((50_000..=60_000).contains(&left), "{left}");
    // The server forgot the script.
    admin.call(&["SCRIPT", "FLUSH"]).await;
    claim.call(set("value", "2")).await.unwrap();
}

/// fred sends what was in flight again when its connection is cut, unless it is told not to.
#[tokio::test]
async fn a_call_whose_reply_was_lost_is_not_sent_again() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let relay = Relay::to(&server);
    let client = client_at(&server.open_url().replace(server.address(), &relay.address())).await;
    let fence = RedisFence::new(client, "stock").timeout(Duration::from_secs(10));
    let claim = fence.claim(&token("stock:1", 7, 1), "mark").await.unwrap();
    relay.hold(Direction::ToClient);
    let waiting = {
        let claim = claim.clone();
        tokio::spawn(async move { claim.call(FencedCommand::new("INCR").key("count")).await })
    };
    eventually("it ran", Duration::from_secs(5), async || {
        admin.call(&["GET", "count"]).await.maybe_text().as_deref() == Some("1")
    })
    .await;
    relay.cut();
    // Not at once: the reply that is held back must be gone with its connection.
    tokio::time::sleep(Duration::from_millis(300)).await;
    relay.let_go();
    let unknown = waiting.await.unwrap();
    assert!(matches!(unknown, Err(FenceError::Store(_))), "{unknown:?}");
    eventually("the client is back", Duration::from_secs(5), async || claim.call(get("count")).await.is_ok())
        .await;
    assert_eq!(claim.call(get("count")).await.unwrap().as_u64(), Some(1));
}
