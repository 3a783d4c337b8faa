//! Actions on events and destinations. Each writes its line of the audit in its own transaction, with the name of the person.

use pillarbox::store::{Entry, Marked, Replayed, Retried, Selection};
use pillarbox::{Emitted, Event};
use uuid::Uuid;

use super::{Desk, DeskError, MOST};

/// The longest reason for which events are marked failed, in characters.
pub(crate) const LONGEST_REASON: usize = 500;

impl Desk {
    /// Makes events due now, with their attempts reset. Returns what became of each.
    ///
    /// # Errors
    /// When no event or more than [`MOST`] are named, or the database fails.
    pub async fn retry(&self, ids: Vec<Uuid>, who: &str) -> Result<Vec<(Uuid, Retried)>, DeskError> {
        let target = checked(&ids)?;
        Ok(self.store.retry(&Selection::Ids(ids), Entry::Anew { who, target: &target }).await?)
    }

    /// Makes dead letters of events, for this reason. Returns what became of each.
    ///
    /// # Errors
    /// When no event or more than [`MOST`] are named, the reason is too long, or the database fails.
    pub async fn fail(&self, ids: &[Uuid], reason: &str, who: &str) -> Result<Vec<(Uuid, Marked)>, DeskError> {
        let target = checked(ids)?;
        let reason = given_up_because(reason, who)?;
        Ok(self.store.fail(ids, &reason, Entry::Anew { who, target: &target }).await?)
    }

    /// Emits delivered or failed events again, as new events. Returns what became of each.
    ///
    /// # Errors
    /// When no event or more than [`MOST`] are named, or the database fails.
    pub async fn replay(&self, ids: &[Uuid], who: &str) -> Result<Vec<(Uuid, Replayed)>, DeskError> {
        let target = checked(ids)?;
        Ok(self.store.replay(ids, Entry::Anew { who, target: &target }).await?)
    }

    /// Pauses a destination: nothing is sent to it until it is resumed. Returns whether it was not paused before.
    ///
    /// # Errors
    /// When nobody knows the destination, or the database fails.
    pub async fn pause(&self, destination: &str, who: &str) -> Result<bool, DeskError> {
        self.check_destination(destination).await?;
        Ok(self.store.pause(destination, who).await?)
    }

    /// Ends a pause. Returns whether there was one.
    ///
    /// # Errors
    /// When nobody knows the destination, or the database fails.
    pub async fn resume(&self, destination: &str, who: &str) -> Result<bool, DeskError> {
        self.check_destination(destination).await?;
        Ok(self.store.resume(destination, who).await?)
    }

    /// Emits one event. With `once`, returns the event that exists already instead of an error.
    ///
    /// # Errors
    /// When the event is invalid or a duplicate, or the database fails.
    pub async fn emit(&self, event: Event, once: bool, who: &str) -> Result<Emitted, DeskError> {
        Ok(self.store.emit_by(who, event, once).await?)
    }

    async fn check_destination(&self, name: &str) -> Result<(), DeskError> {
        if self.knows(name).await? {
            return Ok(());
        }
        let known: Vec<&str> = self.destinations.iter().map(|destination| destination.name.as_str()).collect();
        let known =
            if known.is_empty() { "there are none".to_owned() } else { format!("there are {}", known.join(", ")) };
        Err(DeskError::Unknown(format!("there is no destination {name:?}; {known}")))
    }
}

/// What the events' error says from then on.
pub(super) fn given_up_because(reason: &str, who: &str) -> Result<String, DeskError> {
    check_reason(reason)?;
    let reason = reason.trim();
    Ok(if reason.is_empty() { format!("marked failed by {who}") } else { format!("marked failed by {who}: {reason}") })
}

/// Refuses a reason that is too long for the events' errors.
pub(crate) fn check_reason(reason: &str) -> Result<(), DeskError> {
    if reason.chars().count() > LONGEST_REASON || reason.contains('\0') {
        return Err(DeskError::Refused(format!(
            "the reason must be text of at most {LONGEST_REASON} characters; shorten it"
        )));
    }
    Ok(())
}

/// What the audit says they are.
fn checked(ids: &[Uuid]) -> Result<String, DeskError> {
    match ids {
        [] => Err(DeskError::Refused("no event was named; give the ids of those that are meant".to_owned())),
        [id] => Ok(id.to_string()),
        _ if ids.len() > MOST => Err(DeskError::Refused(format!(
            "{} events were named, at most {MOST} can be; send them in parts, or start a job for all that a filter finds",
            ids.len()
        ))),
        [first, ..] => Ok(format!("{first} and {} more", ids.len() - 1)),
    }
}
