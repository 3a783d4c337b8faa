//! Tables for people: aligned columns, at most as wide as the terminal if there is one.

use std::borrow::Cow;
use std::fmt::Write;

use crate::terminal::escaped;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Aligned left, and cut if there is no room.
    Left,
    /// Aligned left, and never cut, so that it can be copied.
    Whole,
    Right,
}

/// The narrowest width of a column that is cut.
const NARROWEST: usize = 8;

/// Rows under headings.
pub(crate) struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(headings: [(&str, Align); N]) -> Self {
        let columns = headings.iter().map(|(_, align)| *align).collect();
        Self { columns, rows: vec![headings.iter().map(|(heading, _)| (*heading).to_owned()).collect()] }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into_iter().map(|cell| escaped(&cell).into_owned()).collect());
    }

    /// Renders columns two spaces apart, without spaces at the ends of lines. At a terminal, it fits the width.
    pub(crate) fn render(&self) -> String {
        self.within(crate::output::width())
    }

    fn within(&self, room: Option<usize>) -> String {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        if let Some(room) = room {
            self.squeeze(&mut widths, room);
        }
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), align) in row.iter().zip(&widths).zip(&self.columns) {
                let cell = shortened(cell, *width);
                // Writing to a string cannot fail.
                let _ = match align {
                    Align::Left | Align::Whole => write!(line, "{cell:<width$}  "),
                    Align::Right => write!(line, "{cell:>width$}  "),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

impl Table {
    /// Cuts the widest columns until the table fits or they have the narrowest width.
    fn squeeze(&self, widths: &mut [usize], room: usize) {
        loop {
            let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
            let mut cut: Vec<usize> = (0..widths.len()).filter(|column| self.columns[*column] == Align::Left).collect();
            cut.sort_by_key(|column| std::cmp::Reverse(widths[*column]));
            let Some(widest) = cut.first().copied().filter(|widest| total > room && widths[*widest] > NARROWEST) else {
                return;
            };
            // Down to the next widest, so that columns shrink together.
            let next = cut.get(1).map_or(0, |next| widths[*next]);
            let step = (widths[widest] - next).max(1).min(total - room);
            widths[widest] = (widths[widest] - step).max(NARROWEST);
        }
    }
}

/// Renders names and values, with the values aligned. A value of several lines stays in its column, so that no line looks
/// like a field.
pub(crate) fn fields<'a>(fields: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let fields: Vec<(Cow<'a, str>, String)> = fields.into_iter().map(|(name, value)| (escaped(name), value)).collect();
    let width = fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let margin = format!("\n{:width$}  ", "");
    fields.iter().fold(String::new(), |mut text, (name, value)| {
        let lines: Vec<Cow<'_, str>> = value.trim_end().lines().map(escaped).collect();
        let _ = writeln!(text, "{name:<width$}  {}", lines.join(margin.as_str()));
        text
    })
}

/// Returns the beginning of the first line, so that a long error does not break a table.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= limit {
        return line.to_owned();
    }
    line.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new([("NAME", Align::Left), ("N", Align::Right), ("NOTE", Align::Left)]);
        table.row(["é".to_owned(), "100".to_owned(), String::new()]);
        table.row(["longer".to_owned(), "7".to_owned(), "x".to_owned()]);
        assert_eq!(table.render(), "NAME      N  NOTE\né       100\nlonger    7  x\n");
    }

    #[test]
    fn a_table_fits_into_the_terminal_and_ids_stay_whole() {
        let mut table =
            Table::new([("ID", Align::Whole), ("N", Align::Right), ("TYPE", Align::Left), ("NOTE", Align::Left)]);
        table.row(["0123456789".to_owned(), "1".to_owned(), "order.placed.again".to_owned(), "x".repeat(60)]);
        let text = table.within(Some(40));
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.contains("0123456789  1  order.pla") && text.contains('…'), "{text}");
        // If there is no room at all, the narrowest table is wider.
        assert!(table.within(Some(10)).contains("0123456789  1  order.p…  xxxxxxx…"));
        assert!(table.within(None).contains(&"x".repeat(60)));
    }

    #[test]
    fn no_value_looks_like_another_row_or_field() {
        let mut table = Table::new([("TYPE", Align::Left)]);
        table.row(["a\nb\x1b[2J".to_owned()]);
        assert_eq!(table.render(), "TYPE\na\\nb\\u001b[2J\n");
        let text = fields([("state\u{202e}", "one\nkey  \x07".to_owned()), ("key", String::new())]);
        assert_eq!(text, "state\\u202e  one\n             key  \\u0007\nkey          \n");
    }

    #[test]
    fn long_texts_are_cut_at_characters() {
        assert_eq!(shortened("éééé", 3), "éé…");
        assert_eq!(shortened("one\ntwo", 10), "one");
    }
}
