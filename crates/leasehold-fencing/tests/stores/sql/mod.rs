//! PostgreSQL, MariaDB and SQLite.

mod bases;
mod conformance;
mod hazards;
mod rows;
mod zombies;
