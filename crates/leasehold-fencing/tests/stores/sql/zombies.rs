//! P4: a holder is paused before each of its statements, its successor does its work meanwhile, and the
//! holder wakes up. No accepted write is lost, and none is accepted behind the successor's claim.

use std::time::Duration;

use leasehold_fencing::{FenceError, Isolation, MySqlFence, PgFence, SqliteFence, Token};
use sqlx::{Error, query, query_scalar};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::bases;
use crate::support::tokens::token;

/// How a holder goes to work. All but the first are mistakes that the check must find.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Fenced,
    /// No fence at all: what a lock alone gives.
    Bare,
    /// The token is compared at the write alone, after an unprotected read.
    ClaimsLate,
}

/// Where a holder stands still.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Outside,
    InTransaction,
}

/// Sleeping here is being a zombie: until told. In an open transaction not for ever, because there the
/// successor waits for *us*: the transaction holds the mark.
struct Pause {
    before: u32,
    at: u32,
    asleep: Option<oneshot::Sender<()>>,
    wake: Option<oneshot::Receiver<()>>,
}

impl Pause {
    async fn step(&mut self, place: Place) {
        if self.at == self.before {
            self.asleep.take().map(|asleep| asleep.send(()));
            if let Some(wake) = self.wake.take() {
                let limit = if place == Place::Outside { 20_000 } else { 150 };
                let _ = timeout(Duration::from_millis(limit), wake).await;
            }
        }
        self.at += 1;
    }
}

const STEPS: u32 = 6;

fn mark(token: &Token) -> i32 {
    i32::try_from(token.sequence()).unwrap()
}

macro_rules! scenario {
    ($name:ident, $base:path, $pool:ty, $fence:ty, $read:literal, $write:literal, $append:literal) => {
        mod $name {
            use super::*;

            /// Reads the register, adds one, writes it, and appends its token to a set: in two transactions of one hold, as a job does
            /// that computes between them. Says whether the write was accepted.
            async fn add_one(
                pool: &$pool,
                fence: &$fence,
                token: &Token,
                way: Way,
                pause: &mut Pause,
            ) -> Result<bool, Error> {
                let refused = |error| match error {
                    FenceError::Store(error) => Err(error),
                    _ => Ok(false),
                };
                pause.step(Place::Outside).await;
                let value: i32 = if way == Way::Fenced {
                    let mut tx = match fence.begin(pool, token).await {
                        Ok(tx) => tx,
                        Err(error) => return refused(error),
                    };
                    pause.step(Place::InTransaction).await;
                    let value = query_scalar($read).bind(token.resource()).fetch_one(&mut *tx).await?;
                    // Dropped, not committed: it has only read. The claim must stay all the same.
                    drop(tx);
                    value
                } else {
                    query_scalar($read).bind(token.resource()).fetch_one(pool).await?
                };
                pause.step(Place::Outside).await;
                if way == Way::Bare {
                    query($write).bind(value + 1).bind(token.resource()).execute(pool).await?;
                    let append = query($append).bind(token.resource()).bind(mark(token));
                    return append.execute(pool).await.map(|_| true);
                }
                let mut tx = match fence.begin(pool, token).await {
                    Ok(tx) => tx,
                    Err(error) => return refused(error),
                };
                pause.step(Place::InTransaction).await;
                query($write).bind(value + 1).bind(token.resource()).execute(&mut *tx).await?;
                pause.step(Place::InTransaction).await;
                let append = query($append).bind(token.resource()).bind(mark(token));
                append.execute(&mut *tx).await?;
                pause.step(Place::InTransaction).await;
                tx.commit().await.map(|()| true)
            }

            /// Runs the zombie and its successor; `None` if all is well.
            pub(super) async fn find_fault(
                pool: &$pool,
                level: Isolation,
                way: Way,
                before: u32,
            ) -> Option<String> {
                let resource = crate::support::tokens::fresh("orders/");
                let insert = concat!("INSERT INTO register (name, value) VALUES ('", "%", "', 0)");
                let insert = insert.replace('%', &resource);
                query(sqlx::AssertSqlSafe(insert)).execute(pool).await.unwrap();
                // Two processes: each has its own fence.
                let (zombie_fence, fence) = (<$fence>::new("orders"), <$fence>::new("orders"));
                let (zombie_fence, fence) = (zombie_fence.isolation(level), fence.isolation(level));
                let (old, new) = (token(&resource, 7, 1), token(&resource, 8, 2));
                let (asleep, fell_asleep) = oneshot::channel();
                let (waker, wake) = oneshot::channel();
                let zombie_pool = pool.clone();
                let zombie = tokio::spawn(async move {
                    let mut pause = Pause { before, at: 0, asleep: Some(asleep), wake: Some(wake) };
                    add_one(&zombie_pool, &zombie_fence, &old, way, &mut pause).await
                });
                // Where the zombie's way has fewer steps it just finishes.
                let _ = fell_asleep.await;
                let mut no_pause = Pause { before: u32::MAX, at: 0, asleep: None, wake: None };
                let fresh = add_one(pool, &fence, &new, way, &mut no_pause).await.unwrap();
                let _ = waker.send(());
                let late = zombie.await.unwrap().unwrap();
                let value: i32 = query_scalar($read).bind(&resource).fetch_one(pool).await.unwrap();
                let accepted = i32::from(fresh) + i32::from(late);
                (value != accepted || !fresh).then(|| {
                    format!("{level:?} {way:?} paused at {before}: {accepted} accepted, {value} there")
                })
            }

            pub(super) async fn check(levels: &[Isolation]) {
                let Some((pool, _alive)) = $base().await else { return };
                for &level in levels {
                    for before in 0..STEPS {
                        assert_eq!(find_fault(&pool, level, Way::Fenced, before).await, None);
                    }
                }
                for way in [Way::Bare, Way::ClaimsLate] {
                    let mut found = 0;
                    for before in 0..STEPS {
                        found += usize::from(find_fault(&pool, levels[0], way, before).await.is_some());
                    }
                    assert!(found > 0, "the check is blind: {way:?} lost nothing");
                }
            }
        }
    };
}

scenario!(
    on_postgres,
    bases::postgres,
    sqlx::PgPool,
    PgFence,
    "SELECT value FROM register WHERE name = $1",
    "UPDATE register SET value = $1 WHERE name = $2",
    "INSERT INTO appended (name, seq) VALUES ($1, $2)"
);
scenario!(
    on_mariadb,
    bases::mysql,
    sqlx::MySqlPool,
    MySqlFence,
    "SELECT value FROM register WHERE name = ?",
    "UPDATE register SET value = ? WHERE name = ?",
    "INSERT INTO appended (name, seq) VALUES (?, ?)"
);
scenario!(
    on_sqlite,
    bases::sqlite,
    sqlx::SqlitePool,
    SqliteFence,
    "SELECT value FROM register WHERE name = ?",
    "UPDATE register SET value = ? WHERE name = ?",
    "INSERT INTO appended (name, seq) VALUES (?, ?)"
);

const LEVELS: [Isolation; 4] =
    [Isolation::Inherited, Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zombies_lose_nothing_in_postgres() {
    on_postgres::check(&LEVELS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zombies_lose_nothing_in_mariadb() {
    on_mariadb::check(&LEVELS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zombies_lose_nothing_in_sqlite() {
    on_sqlite::check(&LEVELS[..1]).await;
}
