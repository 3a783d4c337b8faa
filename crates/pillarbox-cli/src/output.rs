//! The program's output: one result on standard output, as text for people or as one JSON value for programs; notes and
//! errors on standard error. Text is escaped here, so that text from outside cannot control a terminal.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::json;

use crate::terminal::escaped_lines;

/// The form of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Returns whether standard output is a terminal for people.
    pub(crate) fn is_terminal(self) -> bool {
        !self.json && io::stdout().is_terminal()
    }

    /// Prints the result, as text or as JSON.
    pub(crate) fn answer(self, value: &impl Serialize, text: impl FnOnce() -> String) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.json {
            serde_json::to_writer(&mut out, value)?;
            writeln!(out)?;
        } else {
            let text = text();
            writeln!(out, "{}", escaped_lines(text.trim_end_matches('\n')))?;
        }
        out.flush()
    }

    /// Prints a note for people besides the result.
    pub(crate) fn note(self, text: &str) {
        if !self.json {
            say(&escaped_lines(text));
        }
    }

    /// Prints the error.
    pub(crate) fn error(self, text: &str) {
        let text =
            if self.json { json!({ "error": text }).to_string() } else { format!("error: {}", escaped_lines(text)) };
        say(&text);
    }
}

/// Prints to standard error. An error of that is ignored: there is nowhere to report it.
fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Returns the width of the terminal in columns; `None` if standard output is not a terminal.
pub(crate) fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    ratatui::crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0)
}

/// Returns whether a reader such as `head` closed the pipe, which is not a failure: `pillarbox events list | head`.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Formats a number with its noun: `1 event`, `2 events`.
pub(crate) fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
