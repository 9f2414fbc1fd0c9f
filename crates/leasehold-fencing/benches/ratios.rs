//! What fencing costs, as a ratio to the same work without it: `cargo bench -p leasehold-fencing
//! --all-features`. Bare and fenced rounds alternate, and the ratio is that of their medians.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a bench that cannot set itself up may panic")]

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold_fencing::{Gate, Token};

#[cfg(feature = "postgres")]
#[path = "../tests/stores/support/mod.rs"]
#[allow(dead_code)]
mod support;

fn main() {
    #[cfg(feature = "postgres")]
    if postgres::is_child() {
        return postgres::measure_all();
    }
    gate();
    #[cfg(feature = "postgres")]
    postgres::ratios();
}

/// The middle of many rounds: one slow flush must not decide.
fn median(mut rounds: Vec<Duration>) -> Duration {
    rounds.sort_unstable();
    rounds[rounds.len() / 2]
}

fn say(what: &str, bare: Duration, fenced: Duration, at_most: f64) {
    let ratio = fenced.as_secs_f64() / bare.as_secs_f64();
    println!("{what}: bare {bare:?}, fenced {fenced:?}, ratio {ratio:.2} (at most {at_most})");
}

fn gate() {
    const RESOURCES: u32 = 1_000;
    const CALLS: u32 = 200_000;
    let tokens: Vec<Token> = (0..RESOURCES)
        .map(|number| Token::new(format!("orders/{number}"), 7, [1; 16]).expect("a token"))
        .collect();
    let map: Mutex<HashMap<Arc<str>, u64>> =
        Mutex::new(tokens.iter().map(|token| (token.resource().into(), token.sequence())).collect());
    let gate = Gate::new();
    for token in &tokens {
        gate.admit(token).expect("newer");
    }
    let (mut bare, mut fenced) = (Vec::new(), Vec::new());
    for _ in 0..21 {
        let started = Instant::now();
        for token in tokens.iter().cycle().take(CALLS as usize) {
            let map = map.lock().expect("not poisoned");
            black_box(map.get(black_box(token.resource())).copied());
        }
        bare.push(started.elapsed() / CALLS);
        let started = Instant::now();
        for token in tokens.iter().cycle().take(CALLS as usize) {
            black_box(gate.admit(black_box(token)).is_ok());
        }
        fenced.push(started.elapsed() / CALLS);
    }
    say("gate, admit / hash-map look-up under its mutex", median(bare), median(fenced), 3.0);
}

#[cfg(feature = "postgres")]
mod postgres {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use leasehold_fencing::{PgFence, PgRowFence, Token};
    use sqlx::postgres::PgPoolOptions;
    use sqlx::{AssertSqlSafe, PgPool, query, query_scalar};

    use super::{median, say, support};

    const READ: &str = "SELECT quantity FROM stock WHERE id = $1";
    const WRITE: &str = "UPDATE stock SET quantity = $1 WHERE id = $2";
    const ROUNDS: u64 = 1_500;

    const CHILD: &str = "LEASEHOLD_BENCH_CHILD";

    pub(super) fn is_child() -> bool {
        std::env::var_os(CHILD).is_some()
    }

    /// Each server in a process of its own: what it does at a commit is set in the environment.
    pub(super) fn ratios() {
        for (how, durable) in [("default durability", true), ("fsync = off, for the arithmetic", false)] {
            println!("PostgreSQL, {how}:");
            let mut child = Command::new(std::env::current_exe().expect("this bench"));
            child.env(CHILD, "1").env_remove("LEASEHOLD_DURABLE");
            if durable {
                child.env("LEASEHOLD_DURABLE", "1");
            }
            assert!(child.status().expect("itself again").success());
        }
    }

    pub(super) fn measure_all() {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
        runtime.block_on(measure());
    }

    async fn measure() {
        let Some(server) = support::server::POSTGRES.get() else { return };
        let pool = PgPoolOptions::new().max_connections(4).connect(&server.url).await.expect("a pool");
        PgFence::new("").migrate(&pool).await.expect("migrated");
        let table = "CREATE TABLE stock (id BIGINT PRIMARY KEY, quantity BIGINT NOT NULL)";
        query(table).execute(&pool).await.expect("a table");
        for statement in PgRowFence::new("", "stock", "id").migration() {
            query(AssertSqlSafe(statement)).execute(&pool).await.expect("columns");
        }
        query("INSERT INTO stock SELECT n, 0 FROM generate_series(1, 1000) n")
            .execute(&pool)
            .await
            .expect("rows");
        query("ALTER TABLE stock SET (autovacuum_enabled = off)").execute(&pool).await.expect("quiet");

        let fence = PgFence::new("orders");
        let rows = PgRowFence::new("orders", "stock", "id");
        let (mut bare, mut held, mut fresh, mut row, mut blind) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let id = i64::try_from(round % 1000 + 1).expect("small");
            let token = |sequence| Token::new(format!("orders:{id}"), sequence, [1; 16]).expect("a token");
            bare.push(timed(bare_transaction(&pool, id)).await);
            fresh.push(timed(fenced(&pool, &fence, &token(2 * round + 2), id)).await);
            held.push(timed(fenced(&pool, &fence, &token(2 * round + 2), id)).await);
            row.push(timed(row_level(&pool, &rows, &token(2 * round + 2), id)).await);
            blind.push(timed(row_blind(&pool, &rows, &token(2 * round + 2), id)).await);
        }
        let warm = |rounds: Vec<Duration>| median(rounds[100..].to_vec());
        let bare = warm(bare);
        say("  a transaction of a hold", bare, warm(held), 1.25);
        say("  the first one, with its claim", bare, warm(fresh), 1.25);
        say("  row-level, claim and read in one", bare, warm(row), 1.1);
        say("  row-level, read and claim at the write", bare, warm(blind), 1.1);
    }

    async fn timed(work: impl Future<Output = ()>) -> Duration {
        let started = Instant::now();
        work.await;
        started.elapsed()
    }

    async fn bare_transaction(pool: &PgPool, id: i64) {
        let mut tx = pool.begin().await.expect("BEGIN");
        let value: i64 = query_scalar(READ).bind(id).fetch_one(&mut *tx).await.expect("read");
        query(WRITE).bind(value + 1).bind(id).execute(&mut *tx).await.expect("write");
        tx.commit().await.expect("COMMIT");
    }

    async fn fenced(pool: &PgPool, fence: &PgFence, token: &Token, id: i64) {
        let mut tx = fence.begin(pool, token).await.expect("fenced BEGIN");
        let value: i64 = query_scalar(READ).bind(id).fetch_one(&mut *tx).await.expect("read");
        query(WRITE).bind(value + 1).bind(id).execute(&mut *tx).await.expect("write");
        tx.commit().await.expect("COMMIT");
    }

    async fn row_level(pool: &PgPool, rows: &PgRowFence, token: &Token, id: i64) {
        let mut tx = pool.begin().await.expect("BEGIN");
        let (claim, (value,)): (_, (i64,)) =
            rows.claim_and_read(&mut tx, token, id, "quantity").await.expect("claimed");
        claim.set("quantity = $1").bind(value + 1).execute(&mut tx).await.expect("write");
        tx.commit().await.expect("COMMIT");
    }

    async fn row_blind(pool: &PgPool, rows: &PgRowFence, token: &Token, id: i64) {
        let mut tx = pool.begin().await.expect("BEGIN");
        let _: i64 = query_scalar(READ).bind(id).fetch_one(&mut *tx).await.expect("read");
        let write = rows.set(token, id, "quantity = quantity + 1");
        write.execute(&mut tx).await.expect("write");
        tx.commit().await.expect("COMMIT");
    }
}
