#![doc = include_str!("../README.md")]

mod answer;
mod database;
mod event;
mod inbox;
mod keys;
mod names;
mod once;
mod receive;
#[cfg(feature = "axum")]
mod serve;

pub use self::answer::Answer;
pub use self::database::Database;
pub use self::event::Event;
pub use self::inbox::{Inbox, InboxError};
pub use self::once::{KEEP, OnceError, WAIT, cleanup, create_table, once, once_with};
pub use self::receive::{HandlerError, Handling};
