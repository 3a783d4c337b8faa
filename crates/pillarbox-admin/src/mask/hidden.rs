//! Finds the masked values of an event in texts about it. Pure.

use aho_corasick::{AhoCorasick, MatchKind};

use super::MASKED;

/// The shortest value that is hidden, in characters. Shorter ones are part of too many words.
const SHORTEST: usize = 3;
/// Values shorter than this are hidden only as whole words.
const SHORTEST_WITHIN: usize = 6;
/// The shortest beginning of a value that is hidden at the very end of a text, where the text was cut.
const SHORTEST_CUT: usize = 4;

/// The masked values of an event.
#[derive(Debug, Default)]
pub struct Hidden(Kind);

#[derive(Debug, Default)]
enum Kind {
    #[default]
    Nothing,
    Values(Values),
    /// The values cannot be searched for, so no text about the event is shown.
    Everything,
}

#[derive(Debug)]
struct Values {
    values: Vec<String>,
    finder: AhoCorasick,
}

impl Hidden {
    pub(super) fn new(leaves: Vec<String>) -> Self {
        let mut values = Vec::with_capacity(leaves.len());
        for leaf in leaves.into_iter().filter(|leaf| leaf.chars().count() >= SHORTEST) {
            // A JSON response quotes the value with escapes.
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
            return Self(Kind::Nothing);
        }
        let finder = AhoCorasick::builder().ascii_case_insensitive(true).match_kind(MatchKind::Standard).build(&values);
        Self::of(values, finder)
    }

    fn of<E>(values: Vec<String>, finder: Result<AhoCorasick, E>) -> Self {
        Self(finder.map_or(Kind::Everything, |finder| Kind::Values(Values { values, finder })))
    }

    /// Replaces the masked values by `•••` in a text about the event.
    pub fn scrub(&self, text: &mut String) {
        let hidden = match &self.0 {
            Kind::Nothing => return,
            Kind::Values(hidden) => hidden,
            Kind::Everything => {
                if !text.is_empty() {
                    MASKED.clone_into(text);
                }
                return;
            }
        };
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
    /// Returns the places of the values, each with its start and end.
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

    /// Returns the place of a value that was cut at the end of the text.
    fn cut(&self, text: &str) -> Option<(usize, usize)> {
        let starts = |value: &String| {
            let ends = value.char_indices().map(|(at, _)| at).skip(SHORTEST_CUT);
            ends.filter(|end| text.ends_with(&value[..*end])).max()
        };
        self.values.iter().filter_map(starts).max().map(|length| (text.len() - length, text.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_matcher_nothing_is_shown() {
        let hidden = Hidden::of(vec!["4111111111111111".to_owned()], Err(()));
        let mut texts = ["card 4111111111111111 refused".to_owned(), String::new()];
        texts.iter_mut().for_each(|text| hidden.scrub(text));
        assert_eq!(texts, [MASKED, ""]);
    }
}
