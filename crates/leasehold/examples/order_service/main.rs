//! Three replicas of a shop, and one article left.
//!
//! ```text
//! cargo run --example order_service                                  # SQLite, and a Redis of its own
//! cargo run --example order_service -- postgres://localhost/shop     # PostgreSQL
//! LEASEHOLD_URL=redis://127.0.0.1 cargo run --example order_service  # your Redis
//! ```
//!
//! The article is sold three times over: without a lock; with a lock that its holder loses in a pause;
//! and with the lock's token, which the database checks. Only the last one sells it once.
//!
//! The module `shop` is what a program of yours would contain. The module `staging` starts three real
//! processes of it, stops one of them (SIGSTOP) at the worst moment, and counts.
#![allow(unreachable_pub, reason = "its modules read like those of a program")]

use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match staging::role() {
        staging::Role::Replica { name, redis, database } => staging::replica(&name, &redis, &database).await,
        staging::Role::Stage { redis, database } => staging::play(redis, database).await,
    }
}

mod shop;
mod staging;
