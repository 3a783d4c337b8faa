//! Sources of claims that are not the outbox's table alone. Each wraps a store, and a relay uses it in the store's place.

#[cfg(feature = "wal")]
pub mod wal;
