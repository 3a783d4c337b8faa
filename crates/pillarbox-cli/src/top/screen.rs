//! Draws `top`: header, depth, the chart of the last hour, destinations, relays, dead letters, keys. It fits into 80 by 24, and
//! with fewer columns into 60.
//! It knows no store.

use chrono::{DateTime, Utc};
use pillarbox::store::RelayView;
use pillarbox_admin::desk::Health;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row as Cells, Sparkline, Table, TableState, Wrap};

use super::overview::{Overview, Row, percent, short};
use super::{App, Asked};
use crate::terminal::escaped;

/// The width from which the whole error has a column.
const WIDE: u16 = 110;
/// The width below which less important columns are left out.
const NARROW: u16 = 80;

pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let relays = (app.overview.relays.len().max(1) as u16 + 2).min(6);
    let [head, depth, curve, destinations, relays, dead, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(3),
        Constraint::Min(6),
        Constraint::Length(relays),
        Constraint::Length(6),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_head(frame, head, app);
    draw_depth(frame, depth, &app.overview);
    draw_curve(frame, curve, &app.overview);
    draw_destinations(frame, destinations, app);
    draw_relays(frame, relays, &app.overview);
    draw_dead_letters(frame, dead, app);
    draw_foot(frame, foot, app);
    if app.help {
        draw_help(frame);
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let at = app.overview.at.format("%H:%M:%SZ").to_string();
    let problems = match app.overview.problems.len() {
        0 => "no problems".fg(Color::Green),
        1 => "1 problem".fg(Color::Red),
        many => format!("{many} problems").fg(Color::Red),
    };
    let right = Line::from(vec![problems, Span::raw(format!("  {at}"))]);
    let [title, state] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(right.width() as u16 + 1)]).areas(area);
    frame.render_widget(Line::from(vec!["pillarbox ".bold(), Span::raw(shown(&app.database))]), title);
    frame.render_widget(Paragraph::new(right).alignment(Alignment::Right), state);
}

fn draw_depth(frame: &mut Frame<'_>, area: Rect, overview: &Overview) {
    let depth = &overview.depth;
    let counted = [
        ("due", depth.due, Color::Reset),
        ("scheduled", depth.scheduled, Color::Reset),
        ("sending", depth.sending, Color::Reset),
        ("parked", depth.parked, Color::Yellow),
        ("failed", depth.failed, Color::Red),
    ];
    let mut spans = Vec::new();
    let narrow = area.width < NARROW;
    for (name, count, color) in counted {
        if narrow && count == 0 && matches!(name, "scheduled" | "sending") {
            continue;
        }
        let style = if count > 0 { Style::new().fg(color).add_modifier(Modifier::BOLD) } else { Style::new() };
        spans.push(Span::raw(format!("{name} ")));
        spans.push(Span::styled(format!("{count}  "), style));
    }
    if let Some(oldest) = depth.oldest_due {
        spans.push(Span::raw(format!("oldest due {}", short(Some(oldest.as_secs_f64())))));
    }
    frame.render_widget(Line::from(spans), area);
}

fn draw_curve(frame: &mut Frame<'_>, area: Rect, overview: &Overview) {
    let [text, curve] = Layout::vertical([Constraint::Length(1), Constraint::Length(2)]).areas(area);
    let last = overview.delivered.iter().rev().nth(1).copied().unwrap_or_default();
    let latency = overview.latency;
    let gap = if area.width < NARROW { " " } else { "   " };
    let told = format!(
        "delivered {last}/min{gap}latency p50 {}  p95 {}  p99 {}",
        short(latency.p50_seconds),
        short(latency.p95_seconds),
        short(latency.p99_seconds)
    );
    frame.render_widget(Line::from(told), text);
    // Each minute takes as many columns as there is room for, at least one.
    let columns = (curve.width as usize / overview.delivered.len().max(1)).max(1);
    let data: Vec<u64> = overview.delivered.iter().flat_map(|count| std::iter::repeat_n(*count, columns)).collect();
    let first = data.len().saturating_sub(curve.width as usize);
    frame.render_widget(Sparkline::default().data(&data[first..]).style(Style::new().fg(Color::Green)), curve);
}

/// The columns of destinations: heading, width, and whether it is left out of a narrow screen.
const COLUMNS: [(&str, Constraint, bool); 10] = [
    ("DESTINATION", Constraint::Min(11), false),
    ("HEALTH", Constraint::Length(12), false),
    ("WAITING", Constraint::Length(7), false),
    ("OLDEST", Constraint::Length(6), false),
    ("/MIN", Constraint::Length(6), false),
    ("FAILED", Constraint::Length(6), false),
    ("SUCCESS", Constraint::Length(7), true),
    ("REPLY", Constraint::Length(6), true),
    ("TOTAL", Constraint::Length(6), true),
    (NOTE, Constraint::Fill(2), true),
];
const NOTE: &str = "NOTE";

fn draw_destinations(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let (wide, narrow) = (area.width >= WIDE, area.width < NARROW);
    let is_shown = |(heading, _, may_go): &(&str, Constraint, bool)| !(narrow && *may_go) && (wide || *heading != NOTE);
    let kept: Vec<bool> = COLUMNS.iter().map(is_shown).collect();
    let only = |cells: Vec<Cell<'static>>| {
        Cells::new(cells.into_iter().zip(&kept).filter(|(_, kept)| **kept).map(|(cell, _)| cell).collect::<Vec<_>>())
    };
    let rows = app.overview.destinations.iter().map(|row| only(destination(row, app.overview.at)));
    let widths = COLUMNS.iter().zip(&kept).filter(|(_, kept)| **kept).map(|((_, width, _), _)| *width);
    let heading = COLUMNS.iter().map(|(heading, ..)| *heading).map(right_from(2, 8)).collect();
    let table = Table::new(rows, widths)
        .header(only(heading).bold())
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(titled("destinations"));
    let mut state = TableState::new().with_selected(Some(app.selected));
    frame.render_stateful_widget(table, area, &mut state);
}

/// Aligns columns of numbers to the right.
fn right_from(first: usize, last: usize) -> impl FnMut(&'static str) -> Cell<'static> {
    let mut column = 0;
    move |heading| {
        let is_number = (first..=last).contains(&column);
        column += 1;
        let line = Line::from(heading);
        Cell::from(if is_number { line.right_aligned() } else { line })
    }
}

fn destination(row: &Row, now: DateTime<Utc>) -> Vec<Cell<'static>> {
    let color = match row.health {
        Health::Healthy => Color::Green,
        Health::Paused | Health::RateLimited => Color::Yellow,
        Health::Down | Health::Failing => Color::Red,
        _ => Color::Reset,
    };
    let number = |text: String| Cell::from(Line::from(text).right_aligned());
    let note = match &row.paused_by {
        Some(who) => format!("paused by {who}"),
        None if row.paused_in_configuration => "paused in the configuration".to_owned(),
        None => outage(row, now),
    };
    let waits = if row.waiting > 0 { Style::new().fg(Color::Yellow) } else { Style::new() };
    let failing = if row.failed_per_minute > 0 { Style::new().fg(Color::Red) } else { Style::new() };
    vec![
        Cell::from(shown(&row.name)),
        Cell::from(row.health.as_str()).style(Style::new().fg(color)),
        number(row.waiting.to_string()).style(waits),
        number(short(row.oldest_seconds)),
        number(row.delivered_per_minute.to_string()),
        number(row.failed_per_minute.to_string()).style(failing),
        number(row.success_rate.map_or_else(|| "–".to_owned(), percent)),
        number(short(row.response.p95_seconds)),
        number(short(row.latency.p95_seconds)),
        Cell::from(shown(&note)),
    ]
}

/// Returns how long the destination has been down, when it is probed, and its last error.
fn outage(row: &Row, now: DateTime<Utc>) -> String {
    let apart =
        |one: DateTime<Utc>, other: DateTime<Utc>| short((one - other).to_std().ok().map(|time| time.as_secs_f64()));
    let since = row.down_since.map(|since| format!("for {}", apart(now, since)));
    let probe = row.next_probe_at.filter(|at| *at > now).map(|at| format!("probe in {}", apart(at, now)));
    let parts: Vec<String> = since.into_iter().chain(probe).chain(row.last_error.clone()).collect();
    parts.join(", ")
}

/// The index of the relays' column that is left out of a narrow screen.
const UP: usize = 3;

fn draw_relays(frame: &mut Frame<'_>, area: Rect, overview: &Overview) {
    if overview.relays.is_empty() {
        let none = Paragraph::new("no relay is running".fg(Color::Red)).block(titled("relays"));
        return frame.render_widget(none, area);
    }
    let mut columns = vec![
        ("RELAY", Constraint::Min(12)),
        ("STATE", Constraint::Length(7)),
        ("IN FLIGHT", Constraint::Length(9)),
        ("UP", Constraint::Length(8)),
        ("HEARD", Constraint::Length(8)),
        ("DESTINATIONS", Constraint::Fill(2)),
    ];
    let mut rows: Vec<Vec<Cell<'_>>> = overview.relays.iter().map(|relay| relay_cells(relay, overview)).collect();
    if area.width < NARROW {
        columns.remove(UP);
        rows.iter_mut().for_each(|cells| drop(cells.remove(UP)));
    }
    let (heading, widths): (Vec<&str>, Vec<Constraint>) = columns.into_iter().unzip();
    let heading = Cells::new(heading.into_iter().map(Cell::from).collect::<Vec<_>>());
    let table = Table::new(rows.into_iter().map(Cells::new), widths).header(heading.bold()).block(titled("relays"));
    frame.render_widget(table, area);
}

fn relay_cells(relay: &RelayView, overview: &Overview) -> Vec<Cell<'static>> {
    let color = match (relay.alive, relay.idle) {
        (false, _) => Color::Red,
        (true, true) => Color::Reset,
        (true, false) => Color::Green,
    };
    let since = |moment: DateTime<Utc>| short((overview.at - moment).to_std().ok().map(|age| age.as_secs_f64()));
    let lanes = relay.lanes.iter().map(|lane| match Health::of(lane) {
        health @ (Health::Paused | Health::Down | Health::RateLimited) => {
            format!("{} {}", lane.destination, health.as_str())
        }
        _ => format!("{} {}+{}", lane.destination, lane.sending, lane.queued),
    });
    vec![
        Cell::from(shown(&relay.host)),
        Cell::from(relay.state()).style(Style::new().fg(color)),
        Cell::from(relay.in_flight.to_string()),
        Cell::from(since(relay.started_at)),
        Cell::from(since(relay.heartbeat_at)),
        Cell::from(shown(&lanes.collect::<Vec<_>>().join(", "))),
    ]
}

fn draw_dead_letters(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let Some(letters) = &app.letters else {
        return frame.render_widget(Paragraph::new("…").block(titled("dead letters, newest groups")), area);
    };
    if letters.is_empty() {
        return frame.render_widget(Paragraph::new("no dead letters in 24 hours").block(titled("dead letters")), area);
    }
    let rows = letters.iter().map(|group| {
        Cells::new([
            Cell::from(Line::from(group.count.to_string()).right_aligned()),
            Cell::from(shown(group.destination.as_deref().unwrap_or("–"))),
            Cell::from(short((app.overview.at - group.last_at).to_std().ok().map(|age| age.as_secs_f64()))),
            Cell::from(shown(group.error.lines().next().unwrap_or_default())),
        ])
    });
    let widths = [Constraint::Length(7), Constraint::Length(14), Constraint::Length(8), Constraint::Fill(1)];
    let heading = ["EVENTS", "DESTINATION", "LAST", "ERROR"].map(Cell::from);
    let table = Table::new(rows, widths).header(Cells::new(heading).bold());
    frame.render_widget(table.block(titled("dead letters, newest groups")), area);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let line = match (&app.asked, &app.said) {
        (Some(Asked::Pause(name)), _) => {
            Line::from(format!("pause {}?  [y/n]  its events are parked until it is resumed", shown(name)))
                .bold()
                .fg(Color::Yellow)
        }
        (Some(Asked::Resume(name)), _) => {
            Line::from(format!("resume {}?  [y/n]", shown(name))).bold().fg(Color::Yellow)
        }
        (None, Some(said)) => Line::from(shown(said)).fg(Color::Yellow),
        (None, None) => Line::from("q quit   ↑↓ choose   p pause or resume   r refresh   ? help").dim(),
    };
    frame.render_widget(line, area);
}

fn draw_help(frame: &mut Frame<'_>) {
    const HELP: &str = "\
q, Esc, Ctrl-C  quit
↑ ↓, k j        choose a destination
p               pause or resume it, after a question
r               read everything again now
?               this help

WAITING counts parked and queued events, OLDEST is the age of the oldest \
parked one. /MIN and FAILED are of the last whole minute, SUCCESS is of the \
last hour. REPLY is the receiver's response time, TOTAL is from commit to \
delivered: the p95 of five minutes. A relay's destinations are shown as \
sending+queued.";
    let full = frame.area();
    let (width, height) = (77.min(full.width), if full.width < NARROW { 16 } else { 14 }.min(full.height));
    let area = Rect::new((full.width - width) / 2, (full.height - height) / 2, width, height);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(HELP).wrap(Wrap { trim: false }).block(Block::bordered().title(" help ")), area);
}

/// Makes text from outside safe to draw.
fn shown(text: &str) -> String {
    escaped(text).into_owned()
}

fn titled(title: &'static str) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(format!(" {title} "))
}
