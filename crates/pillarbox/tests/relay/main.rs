//! The relay on real stores: passes, outages, and its life.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod adopted;
#[cfg(feature = "schemas")]
mod checked;
mod crashes;
mod failover;
#[cfg(feature = "mysql")]
mod failover_mysql;
mod filters;
mod fixture;
mod leases;
mod memory;
mod observing;
mod order;
mod outages;
mod passes;
mod pauses;
mod pooler;
mod recovery;
mod running;
mod runs;
mod settling;
mod silence;
mod stopping;
