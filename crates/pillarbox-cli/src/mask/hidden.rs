//! The values that are masked in an event, looked for in what is said about it. Pure.

use aho_corasick::{AhoCorasick, MatchKind};

use super::MASKED;

/// Shorter ones, in characters, are in too many words.
const SHORTEST: usize = 3;
/// Shorter ones are hidden only where they stand alone.
const SHORTEST_WITHIN: usize = 6;
/// The beginning of a value at the very end of a text, where that was cut.
const SHORTEST_CUT: usize = 4;

/// What must not be seen.
#[derive(Debug, Default)]
pub(crate) struct Hidden(Option<Values>);

#[derive(Debug)]
struct Values {
    values: Vec<String>,
    finder: AhoCorasick,
}

impl Hidden {
    pub(super) fn new(leaves: Vec<String>) -> Self {
        let mut values = Vec::with_capacity(leaves.len());
        for leaf in leaves.into_iter().filter(|leaf| leaf.chars().count() >= SHORTEST) {
            // As an answer in JSON quotes it.
            let quoted = serde_json::to_string(&leaf).unwrap_or_default();
            let quoted = quoted.trim_start_matches('"').strip_suffix('"').unwrap_or_default();
            if quoted != leaf && quoted.chars().count() >= SHORTEST {
                values.push(quoted.to_owned());
            }
            values.push(leaf);
        }
        values.sort();
        values.dedup();
        if values.is_empty() {
            return Self(None);
        }
        let finder = AhoCorasick::builder().ascii_case_insensitive(true).match_kind(MatchKind::Standard).build(&values);
        Self(finder.ok().map(|finder| Values { values, finder }))
    }

    /// Puts `•••` in place of them.
    pub(crate) fn scrub(&self, text: &mut String) {
        let Self(Some(hidden)) = self else { return };
        let mut found = hidden.found(text);
        found.extend(hidden.cut(text));
        found.sort_unstable();
        let (mut scrubbed, mut end) = (String::new(), 0);
        for (from, to) in found {
            if from >= end {
                scrubbed.push_str(&text[end..from]);
                scrubbed.push_str(MASKED);
            }
            end = end.max(to);
        }
        if end > 0 {
            scrubbed.push_str(&text[end..]);
            *text = scrubbed;
        }
    }
}

impl Values {
    /// Where they stand, from and to.
    fn found(&self, text: &str) -> Vec<(usize, usize)> {
        let alone = |from: usize, to: usize| {
            let before = text[..from].chars().next_back();
            let after = text[to..].chars().next();
            !before.into_iter().chain(after).any(char::is_alphanumeric)
        };
        self.finder
            .find_overlapping_iter(text)
            .map(|found| (found.start(), found.end()))
            .filter(|(from, to)| text[*from..*to].chars().count() >= SHORTEST_WITHIN || alone(*from, *to))
            .collect()
    }

    /// Where one of them begins that was cut off.
    fn cut(&self, text: &str) -> Option<(usize, usize)> {
        let starts = |value: &String| {
            let ends = value.char_indices().map(|(at, _)| at).skip(SHORTEST_CUT);
            ends.filter(|end| text.ends_with(&value[..*end])).max()
        };
        self.values.iter().filter_map(starts).max().map(|length| (text.len() - length, text.len()))
    }
}
