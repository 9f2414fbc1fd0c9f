//! The part to copy.

use std::time::Duration;

use leasehold::{Client, Token};
use leasehold_fencing::{FenceError, PgFence, SqliteFence};
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{PgPool, SqlitePool, query, query_scalar};

use crate::staging::{pause_here, say};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Short, so that the story is; 30 s is the default.
const LEASE: Duration = Duration::from_millis(600);

pub async fn connect(redis: &str, label: &str) -> Outcome<Client> {
    Ok(Client::builder(redis).label(label).lease(LEASE).connect().await?)
}

/// The stock of a shop, in one of two databases. The fence is the same in both.
#[derive(Clone)]
pub enum Stock {
    Sqlite(SqlitePool, SqliteFence),
    Postgres(PgPool, PgFence),
}

const READ: &str = "SELECT left_over FROM article WHERE id = 42";
/// Someone paid: the sale and the new number of articles are written.
const SELL: &str = "UPDATE article SET left_over = $1, sold = sold + 1 WHERE id = 42";

impl Stock {
    pub async fn open(database: &str) -> Outcome<Self> {
        if database.starts_with("postgres") {
            let pool = PgPoolOptions::new().max_connections(4).connect(database).await?;
            return Ok(Self::Postgres(pool, PgFence::new("orders")));
        }
        let file = SqliteConnectOptions::new().filename(database).create_if_missing(true);
        let pool = SqlitePoolOptions::new().max_connections(4).connect_with(file).await?;
        Ok(Self::Sqlite(pool, SqliteFence::new("orders")))
    }

    /// How many are left, and how many were sold.
    pub async fn count(&self) -> Outcome<(i64, i64)> {
        const COUNT: &str = "SELECT left_over, sold FROM article WHERE id = 42";
        Ok(match self {
            Self::Sqlite(pool, _) => sqlx::query_as(COUNT).fetch_one(pool).await?,
            Self::Postgres(pool, _) => sqlx::query_as(COUNT).fetch_one(pool).await?,
        })
    }

    /// One article is left, none is sold.
    pub async fn fill(&self) -> Outcome<()> {
        const TABLE: &str =
            "CREATE TABLE article (id BIGINT PRIMARY KEY, left_over BIGINT NOT NULL, sold BIGINT NOT NULL)";
        const FILL: &str = "INSERT INTO article VALUES (42, 1, 0)";
        const DROP: &str = "DROP TABLE IF EXISTS article";
        match self {
            Self::Sqlite(pool, fence) => {
                fence.migrate(pool).await?;
                for statement in [DROP, TABLE, FILL] {
                    query(statement).execute(pool).await?;
                }
            }
            Self::Postgres(pool, fence) => {
                fence.migrate(pool).await?;
                for statement in [DROP, TABLE, FILL] {
                    query(statement).execute(pool).await?;
                }
            }
        }
        Ok(())
    }

    async fn read(&self) -> Outcome<i64> {
        Ok(match self {
            Self::Sqlite(pool, _) => query_scalar(READ).fetch_one(pool).await?,
            Self::Postgres(pool, _) => query_scalar(READ).fetch_one(pool).await?,
        })
    }

    async fn write(&self, left: i64) -> Outcome<()> {
        match self {
            Self::Sqlite(pool, _) => query(SELL).bind(left).execute(pool).await?.rows_affected(),
            Self::Postgres(pool, _) => query(SELL).bind(left).execute(pool).await?.rows_affected(),
        };
        Ok(())
    }

    /// As `read`, behind the fence: the token is claimed before anything is read.
    async fn read_fenced(&self, token: &Token) -> Result<i64, FenceError<sqlx::Error>> {
        match self {
            Self::Sqlite(pool, fence) => {
                let mut tx = fence.begin(pool, token).await?;
                query_scalar(READ).fetch_one(&mut *tx).await
            }
            Self::Postgres(pool, fence) => {
                let mut tx = fence.begin(pool, token).await?;
                query_scalar(READ).fetch_one(&mut *tx).await
            }
        }
        .map_err(FenceError::Store)
    }

    /// As `write`, behind the fence: a holder that has been succeeded does not get a transaction.
    async fn write_fenced(&self, token: &Token, left: i64) -> Result<(), FenceError<sqlx::Error>> {
        match self {
            Self::Sqlite(pool, fence) => {
                let mut tx = fence.begin(pool, token).await?;
                query(SELL).bind(left).execute(&mut *tx).await.map_err(FenceError::Store)?;
                tx.commit().await
            }
            Self::Postgres(pool, fence) => {
                let mut tx = fence.begin(pool, token).await?;
                query(SELL).bind(left).execute(&mut *tx).await.map_err(FenceError::Store)?;
                tx.commit().await
            }
        }
        .map_err(FenceError::Store)
    }
}

/// First story: everybody for himself.
pub async fn sell_without_lock(stock: &Stock) -> Outcome<()> {
    let left = stock.read().await?;
    if left == 0 {
        say("finds it sold out");
        return Ok(());
    }
    take_payment().await;
    stock.write(left - 1).await?;
    say("sells the article");
    Ok(())
}

/// Second story: one after the other, as long as nobody is slow.
pub async fn sell_with_lock(client: &Client, stock: &Stock) -> Outcome<()> {
    let guard = client.lock("orders:42")?.acquire().await?;
    let left = stock.read().await?;
    if left == 0 {
        say("has the lock, and finds it sold out");
    } else {
        take_payment().await;
        // Careful, and in vain: the pause comes behind the question.
        if guard.is_held() {
            pause_here("is sure to have the lock, and is stopped before it writes");
            stock.write(left - 1).await?;
            say("sells the article");
        }
    }
    let outcome = guard.release().await?;
    say(&format!("is done; its lock: {outcome:?}"));
    Ok(())
}

/// Third story: the same, and the token goes to the database with each step.
pub async fn sell_with_token(client: &Client, stock: &Stock) -> Outcome<()> {
    let guard = client.lock("orders:42")?.acquire().await?;
    let token = guard.token();
    let left = stock.read_fenced(&token).await?;
    if left == 0 {
        say("has the lock, and finds it sold out");
    } else {
        take_payment().await;
        if guard.is_held() {
            pause_here("is sure to have the lock, and is stopped before it writes");
            match stock.write_fenced(&token, left - 1).await {
                Ok(()) => say("sells the article"),
                Err(refused) if refused.is_refused() => say(&format!("is refused: {refused}")),
                Err(error) => return Err(error.into()),
            }
        }
    }
    let outcome = guard.release().await?;
    say(&format!("is done; its lock: {outcome:?}"));
    Ok(())
}

async fn take_payment() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}
