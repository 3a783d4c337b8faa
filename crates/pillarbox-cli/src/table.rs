//! Tables for people: aligned columns, nothing else.

use std::fmt::Write;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

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
        self.rows.push(cells.into());
    }

    /// Columns two spaces apart, no spaces at the ends of lines.
    pub(crate) fn render(&self) -> String {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), align) in row.iter().zip(&widths).zip(&self.columns) {
                // Writing to a string cannot fail.
                let _ = match align {
                    Align::Left => write!(line, "{cell:<width$}  "),
                    Align::Right => write!(line, "{cell:>width$}  "),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Names and values, the values aligned.
pub(crate) fn fields<'a>(fields: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let fields: Vec<(&str, String)> = fields.into_iter().collect();
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    fields.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name:<width$}  {value}");
        text
    })
}

/// The beginning of the first line, so that a long error does not break a table.
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
    fn long_texts_are_cut_at_characters() {
        assert_eq!(shortened("éééé", 3), "éé…");
        assert_eq!(shortened("one\ntwo", 10), "one");
    }
}
