//! A counter in a database, under a lock whose leases end in the middle of the work.

use std::time::Duration;

use leasehold::Client;
use leasehold_fencing::{FenceError, SqliteFence, Token};
use leasehold_testkit::Server;
use leasehold_tests::client;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{SqlitePool, query, query_scalar};

const READ: &str = "SELECT value FROM counter";
const WRITE: &str = "UPDATE counter SET value = ?";

/// A database that goes with its folder.
struct Base {
    pool: SqlitePool,
    file: std::path::PathBuf,
}

impl Base {
    async fn new(name: &str) -> Self {
        let file = std::env::temp_dir().join(format!("leasehold-{name}-{}.sqlite", std::process::id()));
        let connect = SqliteConnectOptions::new().filename(&file).create_if_missing(true);
        let connect = connect.busy_timeout(Duration::from_secs(20));
        let pool = SqlitePoolOptions::new().max_connections(4).connect_with(connect).await.unwrap();
        SqliteFence::new("counter").migrate(&pool).await.unwrap();
        query("CREATE TABLE counter (value INTEGER)").execute(&pool).await.unwrap();
        query("INSERT INTO counter VALUES (0)").execute(&pool).await.unwrap();
        Self { pool, file }
    }

    async fn value(&self) -> i64 {
        query_scalar(READ).fetch_one(&self.pool).await.unwrap()
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Reads, works for a while, writes one more. Says whether the write was accepted.
async fn fenced(pool: &SqlitePool, fence: &SqliteFence, token: &Token, work: Duration) -> bool {
    let read = async {
        let mut tx = fence.begin(pool, token).await?;
        query_scalar::<_, i64>(READ).fetch_one(&mut *tx).await.map_err(FenceError::Store)
    };
    let value = match read.await {
        Ok(value) => value,
        Err(refused) => return refuse(&refused),
    };
    tokio::time::sleep(work).await;
    let write = async {
        let mut tx = fence.begin(pool, token).await?;
        query(WRITE).bind(value + 1).execute(&mut *tx).await.map_err(FenceError::Store)?;
        tx.commit().await.map_err(FenceError::Store)
    };
    match write.await {
        Ok(()) => true,
        Err(refused) => refuse(&refused),
    }
}

fn refuse(refused: &FenceError<sqlx::Error>) -> bool {
    assert!(refused.is_refused(), "{refused}");
    false
}

async fn bare(pool: &SqlitePool, work: Duration) -> bool {
    let value: i64 = query_scalar(READ).fetch_one(pool).await.unwrap();
    tokio::time::sleep(work).await;
    query(WRITE).bind(value + 1).execute(pool).await.unwrap();
    true
}

/// Three workers, each with a client of its own; every second hold outlives its lease by far.
async fn count(server: &Server, base: &Base, is_fenced: bool) -> i64 {
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..3_u64 {
        let client: Client = client(server).await;
        let pool = base.pool.clone();
        workers.spawn(async move {
            let fence = SqliteFence::new(client.lock("counter").unwrap().name());
            let lock = client.lock("counter").unwrap().fixed(Duration::from_millis(250)).unwrap();
            let mut accepted = 0;
            for round in 0..6 {
                let guard = lock.acquire().await.unwrap();
                let work = Duration::from_millis(if (round + worker) % 2 == 0 { 450 } else { 1 });
                let token = guard.token();
                accepted += i64::from(if is_fenced {
                    fenced(&pool, &fence, &token, work).await
                } else {
                    bare(&pool, work).await
                });
                drop(guard);
            }
            accepted
        });
    }
    workers.join_all().await.into_iter().sum()
}

#[tokio::test]
async fn leases_that_end_in_the_middle_of_the_work_lose_no_accepted_write() {
    let server = Server::start().await;
    let base = Base::new("fenced").await;
    let accepted = count(&server, &base, true).await;
    assert_eq!(base.value().await, accepted);
    assert!(accepted >= 3, "{accepted} of 18: the short ones, at least, get through");
}

#[tokio::test]
async fn without_the_token_they_do_lose_some() {
    let server = Server::start().await;
    let base = Base::new("bare").await;
    let accepted = count(&server, &base, false).await;
    assert!(base.value().await < accepted, "the check above is blind");
}

#[tokio::test]
async fn a_server_that_lost_everything_gives_tokens_that_the_store_accepts() {
    let server = Server::own().await;
    let base = Base::new("flushed").await;
    let client = client(&server).await;
    let lock = client.lock("counter").unwrap();
    let fence = SqliteFence::new(lock.name());
    let first = lock.acquire().await.unwrap();
    assert!(fenced(&base.pool, &fence, &first.token(), Duration::ZERO).await);
    server.admin().await.call(&["FLUSHALL"]).await;
    let second = lock.acquire().await.unwrap();
    assert!(second.token() > first.token());
    assert!(fenced(&base.pool, &fence, &second.token(), Duration::ZERO).await);
    assert!(!fenced(&base.pool, &fence, &first.token(), Duration::ZERO).await, "it was overtaken");
    assert_eq!(base.value().await, 2);
}
