//! What the program says: one answer on standard output, as text for people or as one JSON value for programs, and notes
//! and errors on standard error. Text is escaped here, so that nothing from outside steers a terminal.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::json;

use crate::terminal::escaped_lines;

/// How to answer.
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

    /// Whether a person looks at standard output.
    pub(crate) fn is_terminal(self) -> bool {
        !self.json && io::stdout().is_terminal()
    }

    /// The answer, in the one form or the other.
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

    /// Something people should know beside the answer.
    pub(crate) fn note(self, text: &str) {
        if !self.json {
            say(&escaped_lines(text));
        }
    }

    /// Why there is no answer.
    pub(crate) fn error(self, text: &str) {
        let text =
            if self.json { json!({ "error": text }).to_string() } else { format!("error: {}", escaped_lines(text)) };
        say(&text);
    }
}

/// When nobody listens on standard error there is nobody to tell that to.
fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// How many columns whoever looks at standard output has; `None` when nobody does, or a program.
pub(crate) fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    ratatui::crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0)
}

/// `pillarbox events list | head` is no failure.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// `1 event`, `2 events`.
pub(crate) fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
