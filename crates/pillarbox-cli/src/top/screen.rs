//! Draws `top`: header, depth, the chart of the last hour, destinations, relays, dead letters, keys. It fits into 80 by 24.
//! It knows no store.

use pillarbox::store::RelayView;
use pillarbox_admin::desk::Health;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row as Cells, Sparkline, Table, TableState};

use super::overview::{Overview, Row, short};
use super::{App, Asked};
use crate::terminal::escaped;

/// The width from which the whole error has a column.
const WIDE: u16 = 110;

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
    let title = Line::from(vec!["pillarbox ".bold(), Span::raw(shown(&app.database))]);
    frame.render_widget(title, area);
    let at = app.overview.at.format("%H:%M:%SZ").to_string();
    frame.render_widget(Paragraph::new(at).alignment(Alignment::Right), area);
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
    for (name, count, color) in counted {
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
    let told = format!(
        "delivered {last}/min   latency p50 {}  p95 {}  p99 {}",
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

fn draw_destinations(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let wide = area.width >= WIDE;
    let heading = ["DESTINATION", "STATE", "/MIN", "FAILED", "P50", "P95", "P99", "QUEUED", "SENDING", "NOTE"];
    let count = if wide { heading.len() } else { heading.len() - 1 };
    let rows = app.overview.destinations.iter().map(|row| {
        let cells = destination(row);
        Cells::new(cells.into_iter().take(count).collect::<Vec<_>>())
    });
    let mut widths = vec![
        Constraint::Min(12),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(7),
        Constraint::Length(7),
    ];
    if wide {
        widths.push(Constraint::Fill(2));
    }
    let table = Table::new(rows, widths)
        .header(Cells::new(heading.into_iter().take(count).map(right_from(2, 8))).bold())
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

fn destination(row: &Row) -> Vec<Cell<'static>> {
    let color = match row.state {
        Health::Up => Color::Green,
        Health::Paused | Health::Congested => Color::Yellow,
        Health::Down => Color::Red,
        _ => Color::Reset,
    };
    let number = |text: String| Cell::from(Line::from(text).right_aligned());
    let note = match &row.paused_by {
        Some(who) => format!("paused by {who}"),
        None if row.paused_in_configuration => "paused in the configuration".to_owned(),
        None => row.last_error.clone().unwrap_or_default(),
    };
    let failing = if row.failed_per_minute > 0 { Style::new().fg(Color::Red) } else { Style::new() };
    vec![
        Cell::from(shown(&row.name)),
        Cell::from(row.state.as_str()).style(Style::new().fg(color)),
        number(row.delivered_per_minute.to_string()),
        number(row.failed_per_minute.to_string()).style(failing),
        number(short(row.latency.p50_seconds)),
        number(short(row.latency.p95_seconds)),
        number(short(row.latency.p99_seconds)),
        number(row.queued.to_string()),
        number(row.sending.to_string()),
        Cell::from(shown(&note)),
    ]
}

fn draw_relays(frame: &mut Frame<'_>, area: Rect, overview: &Overview) {
    if overview.relays.is_empty() {
        let none = Paragraph::new("no relay is running".fg(Color::Red)).block(titled("relays"));
        return frame.render_widget(none, area);
    }
    let rows = overview.relays.iter().map(|relay| relay_cells(relay, overview));
    let widths = [
        Constraint::Min(12),
        Constraint::Length(7),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Fill(2),
    ];
    let heading = ["RELAY", "STATE", "IN FLIGHT", "UP", "HEARD", "DESTINATIONS"].map(Cell::from);
    let table = Table::new(rows, widths).header(Cells::new(heading).bold()).block(titled("relays"));
    frame.render_widget(table, area);
}

fn relay_cells(relay: &RelayView, overview: &Overview) -> Cells<'static> {
    let (state, color) = match (relay.alive, relay.idle) {
        (false, _) => ("silent", Color::Red),
        (true, true) => ("idle", Color::Reset),
        (true, false) => ("busy", Color::Green),
    };
    let since = |moment: chrono::DateTime<chrono::Utc>| {
        short((overview.at - moment).to_std().ok().map(|age| age.as_secs_f64()))
    };
    let lanes = relay.lanes.iter().map(|lane| match Health::of(lane) {
        health @ (Health::Paused | Health::Down) => format!("{} {}", lane.destination, health.as_str()),
        _ => format!("{} {}+{}", lane.destination, lane.sending, lane.queued),
    });
    Cells::new([
        Cell::from(shown(&relay.host)),
        Cell::from(state).style(Style::new().fg(color)),
        Cell::from(relay.in_flight.to_string()),
        Cell::from(since(relay.started_at)),
        Cell::from(since(relay.heartbeat_at)),
        Cell::from(shown(&lanes.collect::<Vec<_>>().join(", "))),
    ])
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
            Line::from(format!("pause {}? its events are parked until it is resumed  [y/n]", shown(name)))
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

/MIN and FAILED are of the last whole minute, latencies are from commit
to delivery over the last five. QUEUED and SENDING count the events in
live relays; a relay's destinations are shown as sending+queued.";
    let full = frame.area();
    let (width, height) = (75.min(full.width), 12.min(full.height));
    let area = Rect::new((full.width - width) / 2, (full.height - height) / 2, width, height);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" help ")), area);
}

/// Makes text from outside safe to draw.
fn shown(text: &str) -> String {
    escaped(text).into_owned()
}

fn titled(title: &'static str) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(format!(" {title} "))
}
