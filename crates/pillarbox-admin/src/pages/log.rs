//! The write-ahead log on the overview: a card, where the log is the outbox. Pure.

use pillarbox::store::LogView;

use super::words;

/// The card.
pub(super) struct Card {
    /// The CSS class of the state, which is its word, too.
    pub(super) state: &'static str,
    /// The state in a sentence.
    pub(super) told: String,
    /// Facts by name.
    pub(super) facts: Vec<(&'static str, String)>,
}

impl Card {
    pub(super) fn of(log: &LogView) -> Self {
        let (state, told) = state(log);
        let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "–".to_owned(), words::bytes);
        // A relay that is up to date says so once a second.
        let behind = if log.behind.as_secs() < 3 { "under 3 s".to_owned() } else { words::duration(log.behind) };
        let facts = vec![
            ("Replication slot", log.slot.clone()),
            ("Read by", if log.is_read { "a relay" } else { "no relay" }.to_owned()),
            ("Behind", behind),
            ("Undelivered", words::bytes(log.undelivered_bytes)),
            ("Kept by the server", bytes(log.retained_bytes)),
            ("Left until the slot is lost", bytes(log.left_bytes)),
        ];
        Self { state, told, facts }
    }
}

fn state(log: &LogView) -> (&'static str, String) {
    match log {
        log if !log.is_whole => ("lost", "The slot is lost, or does not exist.".to_owned()),
        log if log.leaving => ("closed", "The log is being disabled: events go into the table.".to_owned()),
        log if !log.is_read => ("unread", "No relay reads the log: events go into the table.".to_owned()),
        log if log.is_open => ("open", "Repeatable events go into the log.".to_owned()),
        log => ("closed", format!("Events go into the table: {}.", log.closed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_card_says_whether_events_go_into_the_log_and_why_not() {
        let card = |change: fn(&mut LogView)| {
            let mut log = LogView::new("shop");
            change(&mut log);
            let card = Card::of(&log);
            (card.state, card.told)
        };
        assert_eq!(card(|_| {}).0, "open");
        assert_eq!(card(|log| log.is_whole = false).0, "lost");
        assert_eq!(card(|log| log.leaving = true).0, "closed");
        assert_eq!(card(|log| (log.is_read, log.is_open) = (false, false)).0, "unread");
        let (state, told) = card(|log| (log.is_open, log.closed) = (false, "the disk is full".to_owned()));
        assert_eq!((state, told.as_str()), ("closed", "Events go into the table: the disk is full."));
        let card = Card::of(&LogView::new("shop"));
        assert_eq!(card.facts[2].1, "under 3 s");
        assert_eq!(card.facts[5].1, "–");
    }
}
