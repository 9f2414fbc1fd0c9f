//! How much of the others a transaction sees.

/// The isolation level of a fenced transaction.
///
/// Fencing is safe at each of them. The guard comes first, so whatever a snapshot can see was committed
/// before the claim. Where a claim has overtaken a snapshot, `RepeatableRead` and `Serializable` in
/// PostgreSQL fail with SQLSTATE 40001; at the guard this crate looks again and says
/// [`Stale`](crate::FenceError::Stale) if it is that. In later statements it is the caller's to roll
/// back and begin again, as always at these levels.
///
/// SQLite has one level, serializable, and ignores this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// The database's or the session's own. Default.
    #[default]
    Inherited,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}
