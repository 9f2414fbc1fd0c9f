//! What goes wrong in databases, one test each.

use std::time::{Duration, Instant};

use leasehold_fencing::{FenceError, Isolation, MySqlFence, PgFence, SqliteFence, Token};
use sqlx::postgres::PgPoolOptions;
use sqlx::{query, query_scalar};
use tokio::time::{sleep, timeout};

use super::bases;
use crate::support::tokens::token;

#[tokio::test]
async fn a_stale_token_is_refused_before_anything_is_read() {
    let Some((pool, _alive)) = bases::sqlite().await else { return };
    let fence = SqliteFence::new("orders");
    let (old, new) = (token("orders/1", 7, 1), token("orders/1", 9, 2));
    fence.begin(&pool, &new).await.unwrap().rollback().await.unwrap();
    match SqliteFence::new("orders").begin(&pool, &old).await {
        Err(FenceError::Stale { ours, stored }) => {
            assert_eq!((ours, stored), (old, new.mark()));
        }
        other => panic!("{other:?}"),
    }
    let twin = token("orders/1", 9, 3);
    assert!(matches!(fence.begin(&pool, &twin).await, Err(FenceError::Duplicate { .. })));
}

#[tokio::test]
async fn tokens_of_other_locks_and_endless_names_are_refused() {
    let Some((pool, _alive)) = bases::mysql().await else { return };
    let fence = MySqlFence::new("orders");
    let other = fence.claim(&pool, &token("invoices/1", 7, 1)).await;
    assert!(matches!(other, Err(FenceError::WrongResource { .. })));
    // MySQL would cut the name in an INSERT IGNORE, and two resources would share a mark.
    let long = token(&format!("orders/{}", "x".repeat(1018)), 7, 1);
    let long = fence.claim(&pool, &long).await;
    assert!(matches!(long, Err(FenceError::NameTooLong { length: 1025, limit: 1024 })));
    fence.claim(&pool, &token(&format!("orders/{}", "x".repeat(1017)), 7, 1)).await.unwrap();
}

#[tokio::test]
async fn a_database_that_forgot_the_claim_voids_what_was_read() {
    let Some((pool, _alive)) = bases::postgres().await else { return };
    let fence = PgFence::new("orders");
    let mine = token("orders/1", 7, 1);
    fence.begin(&pool, &mine).await.unwrap().commit().await.unwrap();
    // A fail-over to a replica that missed the claim.
    query("UPDATE fence_mark SET seq = 5").execute(&pool).await.unwrap();
    assert!(matches!(fence.begin(&pool, &mine).await, Err(FenceError::NoClaim { .. })));
    fence.begin(&pool, &mine).await.unwrap().commit().await.unwrap();
    query("DELETE FROM fence_mark").execute(&pool).await.unwrap();
    assert!(matches!(fence.begin(&pool, &mine).await, Err(FenceError::NoClaim { .. })));
    fence.begin(&pool, &mine).await.unwrap().commit().await.unwrap();
}

#[tokio::test]
async fn a_mark_that_moves_behind_the_snapshot_is_stale_and_no_conflict() {
    let Some((pool, _alive)) = bases::postgres().await else { return };
    for level in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let fence = PgFence::new("orders").isolation(level);
        let resource = crate::support::tokens::fresh("orders/");
        let claim = fence.claim(&pool, &token(&resource, 7, 1)).await.unwrap();
        // A claim that is not committed yet: the guard waits for it with its snapshot taken.
        let mut newer = pool.begin().await.unwrap();
        query("UPDATE fence_mark SET seq = 8 WHERE resource = $1")
            .bind(&resource)
            .execute(&mut *newer)
            .await
            .unwrap();
        let waiting = {
            let pool = pool.clone();
            tokio::spawn(async move { claim.begin(&pool).await })
        };
        sleep(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished(), "the guard waits for the claim");
        newer.commit().await.unwrap();
        let outcome = waiting.await.unwrap();
        assert!(matches!(outcome, Err(FenceError::Stale { .. })), "{level:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn claims_at_serializable_sessions_do_not_fail_by_collision() {
    let Some((pool, _alive)) = bases::postgres().await else { return };
    let options = (*pool.connect_options()).clone();
    let options = options.options([("default_transaction_isolation", "serializable")]);
    let strict = PgPoolOptions::new().max_connections(8).connect_with(options).await.unwrap();
    let level: String = query_scalar("SHOW transaction_isolation").fetch_one(&strict).await.unwrap();
    assert_eq!(level, "serializable");
    for round in 0..10_u64 {
        let claims = (1..=8_u8).map(|holder| {
            let (strict, mine) = (strict.clone(), token("orders/1", round * 8 + u64::from(holder), holder));
            tokio::spawn(async move { PgFence::new("orders").claim(&strict, &mine).await.map(drop) })
        });
        for claim in claims.collect::<Vec<_>>() {
            let outcome = claim.await.unwrap();
            assert!(matches!(outcome, Ok(()) | Err(FenceError::Stale { .. })), "{outcome:?}");
        }
        let top: i64 = query_scalar("SELECT seq FROM fence_mark").fetch_one(&pool).await.unwrap();
        assert_eq!(top, i64::try_from(round * 8 + 8).unwrap());
    }
}

#[tokio::test]
async fn transactions_of_one_holder_run_side_by_side_and_a_claim_waits_for_all() {
    let Some((pool, _alive)) = bases::postgres().await else { return };
    let fence = PgFence::new("orders");
    let mine = token("orders/1", 7, 1);
    let first = fence.begin(&pool, &mine).await.unwrap();
    let second = timeout(Duration::from_secs(5), fence.begin(&pool, &mine)).await.unwrap().unwrap();
    let newer = {
        let (fence, pool) = (fence.clone(), pool.clone());
        tokio::spawn(async move { fence.claim(&pool, &token("orders/1", 8, 2)).await })
    };
    first.commit().await.unwrap();
    sleep(Duration::from_millis(100)).await;
    assert!(!newer.is_finished(), "the second transaction holds the mark");
    second.commit().await.unwrap();
    newer.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_zombie_in_an_open_transaction_keeps_its_successor_no_longer_than_its_lease() {
    let Some((pool, _alive)) = bases::postgres().await else { return };
    let fence = PgFence::new("orders");
    query("INSERT INTO register (name, value) VALUES ('orders/1', 0)").execute(&pool).await.unwrap();
    let lease = Duration::from_secs(1);
    let mut zombie = fence.begin_within(&pool, &token("orders/1", 7, 1), lease).await.unwrap();
    query("UPDATE register SET value = 99").execute(&mut *zombie).await.unwrap();
    let started = Instant::now();
    let mut tx = fence.begin(&pool, &token("orders/1", 8, 2)).await.unwrap();
    let waited = started.elapsed();
    assert!(waited > lease / 2 && waited < lease * 20, "{waited:?}");
    let value: i32 = query_scalar("SELECT value FROM register").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(value, 0);
    zombie.commit().await.unwrap_err();
    // The settings were the transaction's own.
    let limit: String = query_scalar("SHOW statement_timeout").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(limit, "0");
}

#[tokio::test]
async fn a_claim_that_waits_too_long_says_so_and_can_be_asked_again() {
    let Some((pool, _alive)) = bases::mysql().await else { return };
    let fence = MySqlFence::new("orders");
    let zombie = fence.begin(&pool, &token("orders/1", 7, 1)).await.unwrap();
    let options = (*pool.connect_options()).clone();
    let hasty = sqlx::mysql::MySqlPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    query("SET SESSION innodb_lock_wait_timeout = 1").execute(&hasty).await.unwrap();
    let newer = token("orders/1", 8, 2);
    assert!(matches!(fence.claim(&hasty, &newer).await, Err(FenceError::Store(_))));
    zombie.commit().await.unwrap();
    fence.claim(&hasty, &newer).await.unwrap();
}

#[tokio::test]
async fn one_fence_is_shared_by_its_clones_and_by_tasks() {
    fn shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    let Some((pool, _alive)) = bases::sqlite().await else { return };
    let fence = SqliteFence::new("orders");
    shared(&fence);
    let mine: Token = token("orders/1", 7, 1);
    let claim = fence.clone().claim(&pool, &mine).await.unwrap();
    shared(&claim);
    query("DELETE FROM fence_mark").execute(&pool).await.unwrap();
    let outcome = fence.begin(&pool, &mine).await;
    assert!(matches!(outcome, Err(FenceError::NoClaim { .. })), "the clone's claim is known here");
}
