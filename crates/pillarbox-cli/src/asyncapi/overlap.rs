//! Whether two patterns have a name in common. Pure.

/// Returns whether some name matches both patterns. `*` matches any characters.
pub(super) fn overlap(one: &str, other: &str) -> bool {
    let other: Vec<char> = other.chars().collect();
    // Whether what was read of `one` and the first characters of `other` have a name in common.
    let mut row: Vec<bool> = Vec::with_capacity(other.len() + 1);
    row.push(true);
    for (at, c) in other.iter().enumerate() {
        row.push(*c == '*' && row[at]);
    }
    for c in one.chars() {
        let mut next = vec![c == '*' && row[0]];
        for (at, d) in other.iter().enumerate() {
            let both = match (c, *d) {
                ('*', _) | (_, '*') => row[at + 1] || next[at] || row[at],
                (c, d) => c == d && row[at],
            };
            // A star takes nothing, or what the other pattern has; a plain character needs itself or a star.
            let both = both && (c == '*' || *d == '*' || c == *d);
            next.push(both);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::overlap;

    #[test]
    fn patterns_overlap_if_a_name_matches_both() {
        for (one, other) in [
            ("*", "order.placed"),
            ("order.*", "*.placed"),
            ("order.*", "order.placed"),
            ("order.placed", "order.placed"),
            ("a*c", "ab*"),
            ("*", ""),
            ("a**", "a"),
            ("order.*", "order.line.*"),
        ] {
            assert!(overlap(one, other) && overlap(other, one), "{one} and {other}");
        }
        for (one, other) in
            [("order.*", "invoice.*"), ("order.placed", "order.paid"), ("*.a", "*.b"), ("", "a"), ("a*", "b*")]
        {
            assert!(!overlap(one, other) && !overlap(other, one), "{one} and {other}");
        }
    }
}
