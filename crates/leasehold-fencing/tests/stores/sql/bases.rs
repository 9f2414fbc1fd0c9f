//! A pool for each database, with the tables that the tests use.

use std::sync::Arc;
use std::time::Duration;

use leasehold_fencing::{MySqlFence, MySqlRowFence, PgFence, PgRowFence, SqliteFence, SqliteRowFence};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, MySqlPool, PgPool, SqlitePool, query};

use crate::support::server::{MARIADB, POSTGRES, Server};
use crate::support::tokens::fresh;

/// What keeps the database alive: a server, or a file.
#[derive(Debug)]
pub(crate) struct Alive {
    _server: Option<Arc<Server>>,
    file: Option<std::path::PathBuf>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        for tail in ["", "-wal", "-shm"] {
            if let Some(file) = &self.file {
                let _ = std::fs::remove_file(format!("{}{tail}", file.display()));
            }
        }
    }
}

const REGISTER: &str = "CREATE TABLE IF NOT EXISTS register (name VARCHAR(400) PRIMARY KEY, value INTEGER)";

const APPENDED: &str =
    "CREATE TABLE IF NOT EXISTS appended (name VARCHAR(400), seq INTEGER, PRIMARY KEY (name, seq))";

pub(crate) async fn postgres() -> Option<(PgPool, Alive)> {
    let server = POSTGRES.get()?;
    let options = PgPoolOptions::new().max_connections(12).acquire_timeout(Duration::from_secs(20));
    let admin = options.clone().connect(&server.url).await.unwrap();
    // A database for each test: DDL of parallel tests must not meet.
    let name = fresh("db").replace('-', "_");
    query(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&admin).await.unwrap();
    admin.close().await;
    let url = server.url.replace("/postgres?", &format!("/{name}?"));
    let pool = options.connect(&url).await.unwrap();
    PgFence::new("").migrate(&pool).await.unwrap();
    PgFence::new("").migrate(&pool).await.unwrap();
    query(REGISTER).execute(&pool).await.unwrap();
    query(APPENDED).execute(&pool).await.unwrap();
    for statement in PgRowFence::new("", "register", "name").migration() {
        query(AssertSqlSafe(statement)).execute(&pool).await.unwrap();
    }
    Some((pool, Alive { _server: Some(server), file: None }))
}

pub(crate) async fn mysql() -> Option<(MySqlPool, Alive)> {
    let server = MARIADB.get()?;
    let options = MySqlPoolOptions::new().max_connections(12).acquire_timeout(Duration::from_secs(20));
    let admin = options.clone().connect(&server.url).await.unwrap();
    let name = fresh("db").replace('-', "_");
    query(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&admin).await.unwrap();
    admin.close().await;
    let url = server.url.replace("/mysql?", &format!("/{name}?"));
    let pool = options.connect(&url).await.unwrap();
    MySqlFence::new("").migrate(&pool).await.unwrap();
    MySqlFence::new("").migrate(&pool).await.unwrap();
    // The server's default engine is MyISAM here, to show that the migration does not rely on it.
    for table in [REGISTER, APPENDED] {
        query(AssertSqlSafe(format!("{table} ENGINE = InnoDB"))).execute(&pool).await.unwrap();
    }
    for statement in MySqlRowFence::new("", "register", "name").migration() {
        query(AssertSqlSafe(statement)).execute(&pool).await.unwrap();
    }
    Some((pool, Alive { _server: Some(server), file: None }))
}

pub(crate) async fn sqlite() -> Option<(SqlitePool, Alive)> {
    let file = std::env::temp_dir().join(format!("{}.sqlite", fresh("leasehold")));
    let connect = SqliteConnectOptions::new()
        .filename(&file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(10));
    let pool = SqlitePoolOptions::new().max_connections(8).connect_with(connect).await.unwrap();
    SqliteFence::new("").migrate(&pool).await.unwrap();
    SqliteFence::new("").migrate(&pool).await.unwrap();
    query(REGISTER).execute(&pool).await.unwrap();
    query(APPENDED).execute(&pool).await.unwrap();
    for statement in SqliteRowFence::new("", "register", "name").migration() {
        query(AssertSqlSafe(statement)).execute(&pool).await.unwrap();
    }
    Some((pool, Alive { _server: None, file: Some(file) }))
}
