//! `pillarbox top`: the outbox live in the terminal. [`overview`] has the data and [`screen`] draws it; this file has the
//! keys, the clock and the terminal, which is always restored, also after a panic or a signal.

mod overview;
mod screen;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use pillarbox::store::Group;
use pillarbox_admin::desk::{EventFilter, Health, ago};
use pillarbox_admin::{Desk, DeskError};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use self::overview::{MINUTES, Overview};
pub(crate) use self::overview::{percent, short};
use crate::admin;
use crate::commands::destinations::who;
use crate::commands::{Misuse, Session};
use crate::config::duration;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How often everything is read again
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = every)]
    every: Duration,
    /// Print one frame and end; no terminal is needed
    #[arg(long)]
    once: bool,
    /// How wide that frame is
    #[arg(long, value_name = "COLUMNS", requires = "once", default_value_t = 100, value_parser = clap::value_parser!(u16).range(40..=500))]
    width: u16,
}

fn every(text: &str) -> Result<Duration, String> {
    let every = duration(text)?;
    if every < Duration::from_millis(100) { Err("must be at least 100ms".to_owned()) } else { Ok(every) }
}

/// The rows of a printed frame.
const HEIGHT: u16 = 40;
/// The maximum number of groups of dead letters on the screen.
const LETTERS: usize = 4;
const LETTERS_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);
/// The window of the chart.
const WINDOW: Duration = Duration::from_secs(60 * MINUTES as u64);
/// The interval at which dead letters are grouped, which costs more than the other reads.
const LETTERS_EVERY: Duration = Duration::from_secs(10);

/// The state of the screen.
struct App {
    database: String,
    overview: Overview,
    /// `None` before the first search.
    letters: Option<Vec<Group>>,
    letters_at: Option<Instant>,
    /// The index of the selected destination.
    selected: usize,
    asked: Option<Asked>,
    said: Option<String>,
    help: bool,
}

/// An action that waits for confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Pause(String),
    Resume(String),
}

/// The meaning of a key.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Nothing,
    Quit,
    Refresh,
    Do(Asked),
}

pub(crate) async fn run(arguments: &Arguments, session: &Session) -> anyhow::Result<()> {
    session.own("use `pillarbox stats`")?;
    if !arguments.once && !std::io::stdout().is_terminal() {
        return Err(Misuse(
            "top needs a terminal, but standard output is not one; add --once for one frame".to_owned(),
        )
        .into());
    }
    let watch = Watch { desk: admin::desk(session.open().await?.people(), &session.settings) };
    let mut app = App::new(session.settings.database.shown(), watch.overview().await?);
    app.read_letters(&watch).await?;
    if arguments.once {
        return Ok(session.output.answer(&app.overview, || printed(&app, arguments.width))?);
    }
    live(&mut app, &watch, arguments.every).await
}

/// The desk that `top` reads and acts through.
struct Watch {
    desk: Desk,
}

impl Watch {
    async fn overview(&self) -> Result<Overview, DeskError> {
        Ok(Overview::of(self.desk.overview(WINDOW).await?))
    }

    /// Returns the groups with the newest events.
    async fn letters(&self) -> Result<Vec<Group>, DeskError> {
        let mut groups = self.desk.dead_letters(&EventFilter::default(), ago(LETTERS_WITHIN)).await?.groups;
        groups.sort_by_key(|group| std::cmp::Reverse(group.last_at));
        groups.truncate(LETTERS);
        Ok(groups)
    }

    async fn act(&self, asked: &Asked) -> Result<String, DeskError> {
        let who = who();
        Ok(match asked {
            Asked::Pause(name) => match self.desk.pause(name, &who).await? {
                true => format!("{name} is paused: its events are parked"),
                false => format!("{name} was already paused"),
            },
            Asked::Resume(name) => match self.desk.resume(name, &who).await? {
                true => format!("{name} is resumed"),
                false => format!("{name} was not paused"),
            },
        })
    }
}

/// Runs until the user quits. If the database does not respond, shows the error and tries again.
async fn live(app: &mut App, watch: &Watch, every: Duration) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("installing the SIGTERM handler failed")?;
    let mut hangup = signal(SignalKind::hangup()).context("installing the SIGHUP handler failed")?;
    let mut keys = keys();
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut terminal = ratatui::try_init().context("terminal setup failed")?;
    let _restored = Restored;
    loop {
        terminal.draw(|frame| screen::draw(frame, app)).context("drawing to the terminal failed")?;
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
            _ = ticks.tick() => app.refresh(watch).await,
            event = keys.recv() => match event {
                None => return Ok(()),
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => match app.pressed(key) {
                    Wish::Nothing => {}
                    Wish::Quit => return Ok(()),
                    Wish::Refresh => app.refresh(watch).await,
                    Wish::Do(asked) => {
                        app.said = Some(watch.act(&asked).await.unwrap_or_else(|error| error.to_string()));
                        app.refresh(watch).await;
                    }
                },
                // Most of all a new size.
                Some(_) => {}
            },
        }
    }
}

/// Restores the terminal when dropped.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Starts a thread that waits for keys. It ends with the program.
fn keys() -> mpsc::UnboundedReceiver<Event> {
    let (tell, keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if tell.send(event).is_err() {
                return;
            }
        }
    });
    keys
}

impl App {
    fn new(database: String, overview: Overview) -> Self {
        Self { database, overview, letters: None, letters_at: None, selected: 0, asked: None, said: None, help: false }
    }

    async fn refresh(&mut self, watch: &Watch) {
        let read = async {
            let overview = watch.overview().await?;
            if self.letters_at.is_none_or(|at| at.elapsed() >= LETTERS_EVERY) {
                self.read_letters(watch).await?;
            }
            Ok::<_, DeskError>(overview)
        };
        match read.await {
            Ok(overview) => {
                self.overview = overview;
                self.selected = self.selected.min(self.overview.destinations.len().saturating_sub(1));
            }
            Err(error) => self.said = Some(format!("database does not respond: {error}")),
        }
    }

    async fn read_letters(&mut self, watch: &Watch) -> Result<(), DeskError> {
        self.letters = Some(watch.letters().await?);
        self.letters_at = Some(Instant::now());
        Ok(())
    }

    fn pressed(&mut self, key: KeyEvent) -> Wish {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Wish::Quit;
        }
        if let Some(asked) = self.asked.take() {
            return if matches!(key.code, KeyCode::Char('y' | 'Y')) { Wish::Do(asked) } else { Wish::Nothing };
        }
        self.said = None;
        if std::mem::take(&mut self.help) {
            return Wish::Nothing;
        }
        let last = self.overview.destinations.len().saturating_sub(1);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Wish::Quit,
            KeyCode::Char('r') => {
                self.letters_at = None;
                return Wish::Refresh;
            }
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.selected = (self.selected + 1).min(last),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = last,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('p') => self.ask(),
            _ => {}
        }
        Wish::Nothing
    }

    /// Asks whether to pause or to resume the selected destination.
    fn ask(&mut self) {
        let Some(row) = self.overview.destinations.get(self.selected) else { return };
        self.asked = match row.health {
            _ if row.paused_in_configuration => {
                self.said = Some(format!("{} is paused in the configuration; change it there", row.name));
                None
            }
            Health::Paused => Some(Asked::Resume(row.name.clone())),
            _ if row.configured => Some(Asked::Pause(row.name.clone())),
            _ => {
                self.said = Some(format!("{} is not in this configuration", row.name));
                None
            }
        };
    }
}

/// Returns one frame as text.
fn printed(app: &App, width: u16) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, HEIGHT));
    let Ok(_) = terminal.draw(|frame| screen::draw(frame, app));
    let buffer = terminal.backend().buffer();
    let line = |row: u16| {
        let cells: String = (0..width).map(|column| buffer[(column, row)].symbol()).collect();
        cells.trim_end().to_owned() + "\n"
    };
    (0..HEIGHT).map(line).collect()
}

#[cfg(test)]
mod tests;
