//! The write-ahead log as a source, on private servers with `wal_level = logical`: what is delivered, what is spilled, and what happens
//! when a leader, a server or a spill fails.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod delivering;
mod failover;
mod fixture;
mod leading;
mod refusing;
mod spilling;
mod tables;
