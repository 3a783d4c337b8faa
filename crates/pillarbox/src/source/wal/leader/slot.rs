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
    if let Some(confirmed) = slot.confirmed.filter(|confirmed| *confirmed > slot.end) {
        return Err(format!(
            "the log ends at {}, before the stored position {confirmed}: the server was restored to an earlier state; rows and events since then \
             are lost or are in the log unread; compare{rows}, then disable and enable the log",
            slot.end
        ));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::postgres::lsn::Lsn;

    fn slot() -> Slot {
        Slot {
            exists: true,
            wal_status: Some("reserved".to_owned()),
            flushed: Some(Lsn(100)),
            confirmed: Some(Lsn(200)),
            end: Lsn(300),
            wal_level: "logical".to_owned(),
            was_streamed: false,
            system: None,
            synced: false,
            is_synchronous: false,
        }
    }

    fn lead() -> Lead {
        Lead {
            leader: uuid::Uuid::nil(),
            epoch: 1,
            secret: String::new(),
            slot: "shop".to_owned(),
            publication: "shop".to_owned(),
            timeline: "00000001".to_owned(),
            after_a_death: false,
        }
    }

    #[test]
    fn a_slot_that_does_not_have_everything_is_refused() {
        assert_eq!(check(&slot(), &lead(), None), Ok(()));
        let cases = [
            (Slot { wal_level: "replica".to_owned(), ..slot() }, "wal_level is replica"),
            (Slot { exists: false, ..slot() }, "does not exist: events that were committed between 0/C8 and 0/12C"),
            (Slot { wal_status: Some("lost".to_owned()), ..slot() }, "has lost its log"),
            (Slot { flushed: Some(Lsn(201)), ..slot() }, "was created again or moved"),
            (Slot { flushed: Some(Lsn(201)), synced: true, ..slot() }, "came to this server, a promoted standby"),
            // The storage of the server was set back.
            (Slot { end: Lsn(150), ..slot() }, "the log ends at 0/96, before the stored position 0/C8"),
            (Slot { is_synchronous: true, ..slot() }, "synchronous_standby_names"),
        ];
        for (slot, text) in cases {
            let refused = check(&slot, &lead(), None).unwrap_err();
            assert!(refused.contains(text), "{refused}");
        }
    }
}
