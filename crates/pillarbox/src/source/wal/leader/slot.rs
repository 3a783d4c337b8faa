//! Looks at the slot before it is streamed.

use crate::store::postgres::OutboxTable;
use crate::store::postgres::lead::{Lead, SYNCHRONOUS, Slot};

/// Refuses a slot that does not have everything since the stored position.
pub(super) fn check(slot: &Slot, lead: &Lead, table: Option<&OutboxTable>) -> Result<(), String> {
    let name = &lead.slot;
    let known = slot.confirmed.map_or_else(|| "the beginning".to_owned(), |position| position.to_string());
    let rows =
        table.map_or_else(String::new, |table| format!(" with {table}, which has its rows unless they were deleted"));
    let risk = |until: &str| {
        format!(
            "events that were committed between {known} and {until} may be lost; compare{rows}, then disable and enable the log"
        )
    };
    if slot.wal_level != "logical" {
        return Err(format!("wal_level is {}; set it to logical and restart the server", slot.wal_level));
    }
    if slot.is_synchronous {
        return Err(SYNCHRONOUS.to_owned());
    }
    if !slot.exists {
        return Err(format!("the replication slot {name} does not exist: {}", risk(&slot.end.to_string())));
    }
    if matches!(slot.wal_status.as_deref(), Some("lost")) {
        return Err(format!("the replication slot {name} has lost its log: {}", risk(&slot.end.to_string())));
    }
    match (slot.flushed, slot.confirmed) {
        // Only this program moves the slot, and stores its position before.
        (Some(flushed), Some(confirmed)) if flushed > confirmed => {
            let why = if slot.synced {
                "came to this server, a promoted standby, before the last writes of the relay, which the server does not have"
            } else {
                "was created again or moved by another program"
            };
            Err(format!("the replication slot {name} {why}: {}", risk(&flushed.to_string())))
        }
        _ => Ok(()),
    }
}
