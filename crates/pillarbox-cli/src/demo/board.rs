//! The output of the demo while it runs: redrawn in place on a terminal, a line at intervals elsewhere.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use super::Show;
use super::tally::{Facts, Happening, LATEST, Tally};

const REDRAW: Duration = Duration::from_millis(80);
const LINE_EVERY: Duration = Duration::from_secs(1);
const BAR: usize = 40;

const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";
const DIM: &str = "2";
const BOLD: &str = "1";

pub(super) struct Board {
    show: Show,
    tally: Arc<Tally>,
    /// The number of lines on the terminal that the next frame overwrites.
    drawn: usize,
}

impl Board {
    pub(super) fn new(show: Show, tally: Arc<Tally>) -> Self {
        Self { show, tally, drawn: 0 }
    }

    /// Draws until the future is dropped, or output fails.
    pub(super) async fn keep_showing(&mut self) -> anyhow::Result<()> {
        let mut clock = tokio::time::interval(if self.show == Show::Lines { LINE_EVERY } else { REDRAW });
        loop {
            clock.tick().await;
            self.draw()?;
        }
    }

    /// Draws the last frame.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.draw()
    }

    fn draw(&mut self) -> io::Result<()> {
        match self.show {
            Show::Nothing => Ok(()),
            Show::Lines => {
                let mut out = io::stdout().lock();
                writeln!(out, "{}", line(&self.tally.now()))?;
                out.flush()
            }
            Show::Live { colours } => self.redraw(colours),
        }
    }

    fn redraw(&mut self, colours: bool) -> io::Result<()> {
        let picture = picture(&self.tally.now(), colours);
        let mut text = String::new();
        if self.drawn == 0 {
            // Hides the cursor and turns off line wrapping: a wrapped line would break the count of lines.
            text.push_str("\x1b[?25l\x1b[?7l");
        } else {
            let _ = write!(text, "\x1b[{}A", self.drawn);
        }
        for line in &picture {
            let _ = write!(text, "\r\x1b[2K{line}\n");
        }
        self.drawn = picture.len();
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if self.drawn > 0 {
            let mut out = io::stdout().lock();
            let _ = out.write_all(b"\x1b[?25h\x1b[?7h").and_then(|()| out.flush());
        }
    }
}

fn line(facts: &Facts) -> String {
    format!(
        "committed {}, rolled back {}, requests {}, answered 500 {}, answered 503 {}, delivered {}, waiting {}",
        facts.committed.len(),
        facts.rolled_back.len(),
        facts.requests,
        facts.refused,
        facts.unavailable,
        facts.delivered.len(),
        facts.waiting()
    )
}

fn picture(facts: &Facts, colours: bool) -> Vec<String> {
    let paint = |code: &str, text: &str| if colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() };
    let bar = |name: &str, number: usize, code: &str| {
        let filled =
            (number * BAR).checked_div(usize::try_from(facts.orders).unwrap_or(usize::MAX)).unwrap_or(0).min(BAR);
        let (full, empty) = ("█".repeat(filled), "░".repeat(BAR - filled));
        format!("  {name:<12} {}{} {number:>5}", paint(code, &full), paint(DIM, &empty))
    };
    let receiver = if facts.is_down { paint(RED, "down") } else { paint(GREEN, "up") };
    let mut lines = vec![
        String::new(),
        format!("  {}", paint(BOLD, "Orders and their events, each pair in one transaction")),
        bar("committed", facts.committed.len(), BOLD),
        bar("rolled back", facts.rolled_back.len(), DIM),
        String::new(),
        format!("  {}", paint(BOLD, "Relayed over HTTP to a receiver that fails now and then")),
        bar("delivered", facts.delivered.len(), GREEN),
        bar("waiting", facts.waiting(), YELLOW),
        bar("retried", facts.retried.len(), YELLOW),
        format!(
            "  {:<12} {} sent, {} answered 500, {} answered 503; the receiver is {receiver}",
            "requests", facts.requests, facts.refused, facts.unavailable
        ),
        String::new(),
    ];
    for position in 0..LATEST {
        let text = facts.latest.get(position).map(|(order, what)| told(*order, *what, &paint)).unwrap_or_default();
        lines.push(format!("  {text}"));
    }
    lines.push(String::new());
    lines
}

fn told(order: Option<u32>, what: Happening, paint: &impl Fn(&str, &str) -> String) -> String {
    let order = order.map(|order| format!("order {order:>4}  ")).unwrap_or_default();
    match what {
        Happening::Committed => format!("{order}committed"),
        Happening::RolledBack => format!("{order}{}", paint(DIM, "rolled back: payment declined")),
        Happening::Delivered { attempt: 1 } => format!("{order}{}", paint(GREEN, "delivered")),
        Happening::Delivered { attempt } => {
            format!("{order}{}", paint(GREEN, &format!("delivered, attempt {attempt}")))
        }
        Happening::Refused => format!("{order}{}", paint(YELLOW, "answered 500: retried in a moment")),
        Happening::Unavailable => format!("{order}{}", paint(RED, "answered 503: parked until the receiver is up")),
        Happening::Down => paint(RED, "the receiver is down: its events are parked, no attempt is used up"),
        Happening::Up => paint(GREEN, "the receiver is up again"),
    }
}
