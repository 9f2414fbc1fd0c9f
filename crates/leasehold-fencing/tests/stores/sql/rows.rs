//! The row-level form, on each database.

use leasehold_fencing::{FenceError, MySqlRowFence, PgRowFence, SqliteRowFence};
use sqlx::{query, query_scalar};

use super::bases;
use crate::support::tokens::token;

macro_rules! row_level {
    ($name:ident, $base:path, $fence:ty, $set:literal) => {
        #[tokio::test]
        async fn $name() {
            let Some((pool, _alive)) = $base().await else { return };
            query("INSERT INTO register (name, value) VALUES ('42', 10)").execute(&pool).await.unwrap();
            let stock = <$fence>::new("orders", "register", "name");
            let (old, new) = (token("orders:42", 7, 1), token("orders:42", 9, 2));
            let twin = token("orders:42", 9, 3);

            // Claim, read, several writes; the same value twice is a match, not a miss.
            let mut tx = pool.begin().await.unwrap();
            let (claim, (value,)): (_, (i32,)) =
                stock.claim_and_read(&mut tx, &old, "42", "value").await.unwrap();
            assert_eq!(value, 10);
            for _ in 0..2 {
                claim.set($set).bind(value - 1).execute(&mut tx).await.unwrap();
            }
            tx.commit().await.unwrap();
            let mut db = pool.acquire().await.unwrap();
            stock.claim(&mut db, &old, "42").await.unwrap();

            // The successor sees it, and ends it.
            let (next, (value,)): (_, (i32,)) =
                stock.claim_and_read(&mut db, &new, "42", "value").await.unwrap();
            assert_eq!(value, 9);
            let late = claim.set($set).bind(0).execute(&mut db).await;
            assert!(matches!(late, Err(FenceError::Stale { stored, .. }) if stored == new.mark()), "{late:?}");
            let late = stock.claim(&mut db, &old, "42").await;
            assert!(matches!(late, Err(FenceError::Stale { .. })), "{late:?}");
            let late = stock.set(&old, "42", "value = value - 1").execute(&mut db).await;
            assert!(matches!(late, Err(FenceError::Stale { .. })), "{late:?}");
            for outcome in [
                stock.claim(&mut db, &twin, "42").await.map(drop),
                stock.set(&twin, "42", "value = value - 1").execute(&mut db).await,
            ] {
                assert!(matches!(outcome, Err(FenceError::Duplicate { .. })), "{outcome:?}");
            }
            next.set($set).bind(8).execute(&mut db).await.unwrap();
            stock.set(&new, "42", "value = value - 1").execute(&mut db).await.unwrap();

            // Stale and *no such row* are told apart.
            let none = stock.claim(&mut db, &new, "43").await;
            assert!(matches!(none, Err(FenceError::NoSuchRow { .. })), "{none:?}");
            let none = stock.claim_and_read::<_, (i32,)>(&mut db, &new, "43", "value").await;
            assert!(matches!(none, Err(FenceError::NoSuchRow { .. })), "{none:?}");
            let none = stock.set(&new, "43", "value = value - 1").execute(&mut db).await;
            assert!(matches!(none, Err(FenceError::NoSuchRow { .. })), "{none:?}");
            let other = stock.claim(&mut db, &token("invoices:42", 99, 1), "42").await;
            assert!(matches!(other, Err(FenceError::WrongResource { .. })), "{other:?}");
            let other = stock.set(&token("invoices:42", 99, 1), "42", "value = 0").execute(&mut db).await;
            assert!(matches!(other, Err(FenceError::WrongResource { .. })), "{other:?}");
            drop(db);

            // What was read under a claim that was rolled back cannot be written.
            let last = token("orders:42", 11, 4);
            let mut tx = pool.begin().await.unwrap();
            let (claim, _): (_, (i32,)) =
                stock.claim_and_read(&mut tx, &last, "42", "value").await.unwrap();
            tx.rollback().await.unwrap();
            let mut db = pool.acquire().await.unwrap();
            let void = claim.set($set).bind(0).execute(&mut db).await;
            assert!(matches!(void, Err(FenceError::NoClaim { .. })), "{void:?}");
            let fresh = query("INSERT INTO register (name, value) VALUES ('44', 1)");
            fresh.execute(&mut *db).await.unwrap();
            let mut tx = pool.begin().await.unwrap();
            let claim = stock.claim(&mut tx, &last, "44").await.unwrap();
            tx.rollback().await.unwrap();
            let void = claim.set($set).bind(0).execute(&mut db).await;
            assert!(matches!(void, Err(FenceError::NoClaim { .. })), "never claimed: {void:?}");

            let value: i32 = query_scalar("SELECT value FROM register WHERE name = '42'")
                .fetch_one(&mut *db).await.unwrap();
            assert_eq!(value, 7);
        }
    };
}

row_level!(rows_in_postgres, bases::postgres, PgRowFence, "value = $1");
row_level!(rows_in_mariadb, bases::mysql, MySqlRowFence, "value = ?");
row_level!(rows_in_sqlite, bases::sqlite, SqliteRowFence, "value = ?");
