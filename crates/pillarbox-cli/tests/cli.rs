//! The program as people and scripts run it: the real binary, in a directory of its own.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "cli/client.rs"]
mod client;
#[path = "cli/home.rs"]
mod home;

#[path = "cli/access.rs"]
mod access;
#[path = "cli/api.rs"]
mod api;
#[path = "cli/celery.rs"]
mod celery;
#[path = "cli/configuration.rs"]
mod configuration;
#[path = "cli/delivering.rs"]
mod delivering;
#[path = "cli/deploy.rs"]
mod deploy;
#[path = "cli/development.rs"]
mod development;
#[path = "cli/doctor.rs"]
mod doctor;
#[path = "cli/door.rs"]
mod door;
#[cfg(feature = "kafka")]
#[path = "cli/fan_out.rs"]
mod fan_out;
#[path = "cli/keys.rs"]
mod keys;
#[path = "cli/listening.rs"]
mod listening;
#[path = "cli/looking_after.rs"]
mod looking_after;
#[path = "cli/masking.rs"]
mod masking;
#[path = "cli/mistakes.rs"]
mod mistakes;
#[path = "cli/on_mariadb.rs"]
mod on_mariadb;
#[path = "cli/on_postgres.rs"]
mod on_postgres;
#[path = "cli/on_wal.rs"]
mod on_wal;
#[path = "cli/pages.rs"]
mod pages;
#[path = "cli/payloads.rs"]
mod payloads;
#[path = "cli/processes.rs"]
mod processes;
#[path = "cli/replicas.rs"]
mod replicas;
#[path = "cli/schemas.rs"]
mod schemas;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/testing.rs"]
mod testing;
#[path = "cli/tracing.rs"]
mod tracing;
