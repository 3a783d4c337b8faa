//! Actions on events and destinations. Each writes its audit line in the same transaction, with the user's name.

use pillarbox::store::{Entry, Marked, Replayed, Retried, Selection, ToDestination};
use pillarbox::{Emitted, Event};
use uuid::Uuid;

use super::{Desk, DeskError, MOST};

/// The longest reason for marking events failed, in characters.
pub(crate) const LONGEST_REASON: usize = 500;

impl Desk {
    /// Makes events due now, with their attempts reset. Returns the result for each.
    ///
    /// # Errors
    /// Fails if no event or more than [`MOST`] are named, or if the database fails.
    pub async fn retry(&self, ids: Vec<Uuid>, who: &str) -> Result<Vec<(Uuid, Retried)>, DeskError> {
        let target = checked(&ids)?;
        Ok(self.store.retry(&Selection::Ids(ids), Entry::Anew { who, target: &target }).await?)
    }

    /// Marks events failed, for this reason. Returns the result for each.
    ///
    /// # Errors
    /// Fails if no event or more than [`MOST`] are named, if the reason is too long, or if the database fails.
    pub async fn fail(&self, ids: &[Uuid], reason: &str, who: &str) -> Result<Vec<(Uuid, Marked)>, DeskError> {
        let target = checked(ids)?;
        let reason = given_up_because(reason, who)?;
        Ok(self.store.fail(ids, &reason, Entry::Anew { who, target: &target }).await?)
    }

    /// Emits delivered or failed events again, as new events, to all their destinations or to `only` one. Returns the result
    /// for each.
    ///
    /// # Errors
    /// Fails if no event or more than [`MOST`] are named, if the destination is unknown, or if the database fails.
    pub async fn replay(
        &self,
        ids: &[Uuid],
        only: Option<&str>,
        who: &str,
    ) -> Result<Vec<(Uuid, Replayed)>, DeskError> {
        let target = checked(ids)?;
        let Some(name) = only else {
            return Ok(self.store.replay(ids, None, Entry::Anew { who, target: &target }).await?);
        };
        self.check_destination(name).await?;
        let only = ToDestination { name: name.to_owned(), routes: self.routes.clone() };
        let target = format!("{target} to {name}");
        Ok(self.store.replay(ids, Some(&only), Entry::Anew { who, target: &target }).await?)
    }

    /// Pauses a destination: nothing is sent to it until it is resumed. Returns whether this changed anything.
    ///
    /// # Errors
    /// Fails if the destination is unknown, or if the database fails.
    pub async fn pause(&self, destination: &str, who: &str) -> Result<bool, DeskError> {
        self.check_destination(destination).await?;
        Ok(self.store.pause(destination, who).await?)
    }

    /// Ends a pause. Returns whether there was one.
    ///
    /// # Errors
    /// Fails if the destination is unknown, or if the database fails.
    pub async fn resume(&self, destination: &str, who: &str) -> Result<bool, DeskError> {
        self.check_destination(destination).await?;
        Ok(self.store.resume(destination, who).await?)
    }

    /// Emits one event. With `once`, returns an existing event instead of an error.
    ///
    /// # Errors
    /// Fails if the event is invalid or a duplicate, or if the database fails.
    pub async fn emit(&self, event: Event, once: bool, who: &str) -> Result<Emitted, DeskError> {
        Ok(self.store.emit_by(who, event, once).await?)
    }

    pub(super) async fn check_destination(&self, name: &str) -> Result<(), DeskError> {
        if self.knows(name).await? {
            return Ok(());
        }
        let known: Vec<&str> = self.destinations.iter().map(|destination| destination.name.as_str()).collect();
        let known = if known.is_empty() {
            "none is configured".to_owned()
        } else {
            format!("choose one of: {}", known.join(", "))
        };
        Err(DeskError::Unknown(format!("there is no destination {name:?}; {known}")))
    }
}

/// Returns the error text of events that are marked failed.
pub(super) fn given_up_because(reason: &str, who: &str) -> Result<String, DeskError> {
    check_reason(reason)?;
    let reason = reason.trim();
    Ok(if reason.is_empty() { format!("marked failed by {who}") } else { format!("marked failed by {who}: {reason}") })
}

/// Refuses a reason that is too long for the events' errors or contains NUL.
pub(crate) fn check_reason(reason: &str) -> Result<(), DeskError> {
    if reason.chars().count() > LONGEST_REASON || reason.contains('\0') {
        return Err(DeskError::Refused(format!(
            "the reason must be text of at most {LONGEST_REASON} characters; shorten it"
        )));
    }
    Ok(())
}

/// Checks the number of ids and returns their text for the audit.
pub(super) fn checked(ids: &[Uuid]) -> Result<String, DeskError> {
    match ids {
        [] => Err(DeskError::Refused("no event ids were given; give at least one".to_owned())),
        [id] => Ok(id.to_string()),
        _ if ids.len() > MOST => Err(DeskError::Refused(format!(
            "{} event ids were given, the limit is {MOST}; split the request, or start a job with a filter",
            ids.len()
        ))),
        [first, ..] => Ok(format!("{first} and {} more", ids.len() - 1)),
    }
}
