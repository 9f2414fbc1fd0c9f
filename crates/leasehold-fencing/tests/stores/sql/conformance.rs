//! The conformance run, on each database, through transactions.

use std::fmt::Write as _;

use leasehold_fencing::{
    FenceError, FencedStore, MySqlFence, PgFence, SqlClaim, SqliteFence, Token, conformance,
};
use sqlx::{Error, MySql, MySqlPool, PgPool, Postgres, Sqlite, SqlitePool, query, query_scalar};

use super::bases;

/// Keys in hexadecimal: it is the marks' names that are tested, not this table's collation.
fn key(token: &Token) -> String {
    token.resource().bytes().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

macro_rules! shelf {
    ($shelf:ident, $database:ty, $pool:ty, $fence:ty, $read:literal, $write:literal) => {
        struct $shelf {
            pool: $pool,
            fence: $fence,
            /// A fence that remembers nothing, as after a restart of the process.
            forgetful: bool,
        }

        impl FencedStore for $shelf {
            type Error = Error;
            type Claim = SqlClaim<$database>;

            async fn claim(&self, token: &Token) -> Result<Self::Claim, FenceError<Error>> {
                if self.forgetful {
                    return <$fence>::new("run").claim(&self.pool, token).await;
                }
                self.fence.claim(&self.pool, token).await
            }

            async fn read(&self, claim: &Self::Claim) -> Result<Option<Vec<u8>>, FenceError<Error>> {
                let mut tx = claim.begin(&self.pool).await?;
                let read = query_scalar($read).bind(key(claim.token()));
                let value = read.fetch_optional(&mut *tx).await.map_err(FenceError::Store)?;
                tx.commit().await.map_err(FenceError::Store)?;
                Ok(value)
            }

            async fn write(&self, claim: &Self::Claim, value: &[u8]) -> Result<(), FenceError<Error>> {
                let mut tx = claim.begin(&self.pool).await?;
                let write = query($write).bind(key(claim.token())).bind(value);
                write.execute(&mut *tx).await.map_err(FenceError::Store)?;
                tx.commit().await.map_err(FenceError::Store)
            }
        }
    };
}

shelf!(
    PgShelf,
    Postgres,
    PgPool,
    PgFence,
    "SELECT value FROM shelf WHERE name = $1",
    "INSERT INTO shelf (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
);
shelf!(
    MySqlShelf,
    MySql,
    MySqlPool,
    MySqlFence,
    "SELECT value FROM shelf WHERE name = ?",
    "REPLACE INTO shelf (name, value) VALUES (?, ?)"
);
shelf!(
    SqliteShelf,
    Sqlite,
    SqlitePool,
    SqliteFence,
    "SELECT value FROM shelf WHERE name = ?",
    "REPLACE INTO shelf (name, value) VALUES (?, ?)"
);

#[tokio::test]
async fn postgres_conforms() {
    let Some((pool, _alive)) = bases::postgres().await else { return };
    query("CREATE TABLE shelf (name TEXT PRIMARY KEY, value BYTEA)").execute(&pool).await.unwrap();
    for (forgetful, run) in [(false, "run/1"), (true, "run/2")] {
        let shelf = PgShelf { pool: pool.clone(), fence: PgFence::new("run"), forgetful };
        conformance(&shelf, run).await.unwrap();
    }
}

#[tokio::test]
async fn mariadb_conforms() {
    let Some((pool, _alive)) = bases::mysql().await else { return };
    let shelf = "CREATE TABLE shelf (name VARCHAR(700) PRIMARY KEY, value BLOB) ENGINE = InnoDB";
    query(shelf).execute(&pool).await.unwrap();
    for (forgetful, run) in [(false, "run/1"), (true, "run/2")] {
        let shelf = MySqlShelf { pool: pool.clone(), fence: MySqlFence::new("run"), forgetful };
        conformance(&shelf, run).await.unwrap();
    }
}

#[tokio::test]
async fn sqlite_conforms() {
    let Some((pool, _alive)) = bases::sqlite().await else { return };
    query("CREATE TABLE shelf (name TEXT PRIMARY KEY, value BLOB)").execute(&pool).await.unwrap();
    for (forgetful, run) in [(false, "run/1"), (true, "run/2")] {
        let shelf = SqliteShelf { pool: pool.clone(), fence: SqliteFence::new("run"), forgetful };
        conformance(&shelf, run).await.unwrap();
    }
}
