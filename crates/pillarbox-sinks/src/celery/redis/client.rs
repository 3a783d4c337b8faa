//! The connection to Redis, and the declarations that were made on it.

use std::sync::{Mutex, PoisonError};

use pillarbox::celery::Declaration;

use crate::redis_server::client;

pub(super) type Client = client::Client<Declared>;
pub(super) type Link = client::Link<Declared>;

/// The queues that were bound on one connection.
#[derive(Default)]
pub(super) struct Declared(Mutex<Vec<Declaration>>);

impl Declared {
    pub(super) fn has(&self, queue: &Declaration) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(queue)
    }

    pub(super) fn add(&self, queues: impl Iterator<Item = Declaration>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(queues);
    }
}
