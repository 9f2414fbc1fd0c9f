//! PostgreSQL, MySQL and MariaDB, SQLite: claim before read, in the database's own transactions.

mod dialect;
mod fence;
mod isolation;
mod memory;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod rows;
#[cfg(feature = "sqlite")]
mod sqlite;
mod statement;
mod tx;
mod update;

pub use dialect::Dialect;
pub use fence::{SqlClaim, SqlFence};
pub use isolation::Isolation;
pub use rows::RowFence;
pub use tx::FencedTx;
pub use update::{RowClaim, RowUpdate};

#[cfg(feature = "postgres")]
mod pg_names {
    use sqlx::Postgres;

    /// A fence in PostgreSQL.
    pub type PgFence = super::SqlFence<Postgres>;
    /// The row-level form in PostgreSQL.
    pub type PgRowFence = super::RowFence<Postgres>;
}
#[cfg(feature = "postgres")]
pub use pg_names::{PgFence, PgRowFence};

#[cfg(feature = "mysql")]
mod mysql_names {
    use sqlx::MySql;

    /// A fence in MySQL or MariaDB.
    pub type MySqlFence = super::SqlFence<MySql>;
    /// The row-level form in MySQL or MariaDB.
    pub type MySqlRowFence = super::RowFence<MySql>;
}
#[cfg(feature = "mysql")]
pub use mysql_names::{MySqlFence, MySqlRowFence};

#[cfg(feature = "sqlite")]
mod sqlite_names {
    use sqlx::Sqlite;

    /// A fence in SQLite.
    pub type SqliteFence = super::SqlFence<Sqlite>;
    /// The row-level form in SQLite.
    pub type SqliteRowFence = super::RowFence<Sqlite>;
}
#[cfg(feature = "sqlite")]
pub use sqlite_names::{SqliteFence, SqliteRowFence};
