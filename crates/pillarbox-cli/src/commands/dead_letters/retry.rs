//! `pillarbox dead-letters retry`: retries a group, the matches of a filter, or all dead letters, at a rate that receivers
//! can take. The desk does the work, as for the admin's pages.

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use pillarbox_admin::Desk;
use pillarbox_admin::desk::{Action, EventFilter, GroupKey, Job, JobScope, JobState, Preview};
use serde_json::json;

use super::super::destinations::who;
use super::super::events::confirmed;
use super::super::{Misuse, Session};
use super::{Which, named};
use crate::output::count;

/// The interval at which progress is read.
const GLANCE: Duration = Duration::from_millis(100);
/// The number of intervals between two lines of progress, where there is no progress bar.
const TOLD_EVERY: u32 = 20;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The group, by its name in `pillarbox dead-letters`
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    #[command(flatten)]
    which: Which,
    /// All that failed within the time of --within
    #[arg(long, conflicts_with_all = ["group", "event_type", "destination"])]
    all: bool,
    /// Events per second at most
    #[arg(long, value_name = "EVENTS")]
    rate: Option<f64>,
    /// Print the number of events, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(arguments: &Arguments, desk: &Desk, session: &Session) -> anyhow::Result<()> {
    let which = &arguments.which;
    if arguments.group.is_none() && which.event_type.is_none() && which.destination.is_none() && !arguments.all {
        return Err(Misuse("choose the events: --group, --type, --destination, or --all".to_owned()).into());
    }
    let scope = choose(arguments, desk).await?;
    let expected = desk.preview(&Action::Retry, &scope).await?;
    if arguments.dry_run || expected.count == 0 {
        let answer = json!({ "would_retry": expected.count, "at_least": expected.at_least });
        return Ok(session.output.answer(&answer, || match expected.count {
            0 => format!("no matching dead letters in the last {}", window(arguments)),
            _ => format!("{} of the last {} would be retried", shown(expected), window(arguments)),
        })?);
    }
    let events = format!("{} of the last {}", shown(expected), window(arguments));
    if !arguments.yes && !confirmed(&events, "retried")? {
        return Ok(session.output.answer(&json!({ "changed": 0 }), || "nothing was changed".to_owned())?);
    }
    let job = desk.start(Action::Retry, &scope, arguments.rate, &who()).await?;
    let job = watch(desk, job, session).await?;
    answer(&job, session)
}

async fn choose(arguments: &Arguments, desk: &Desk) -> anyhow::Result<JobScope> {
    let which = &arguments.which;
    let since = which.since();
    let group = match &arguments.group {
        None => None,
        Some(name) => {
            let letters = desk.dead_letters(&which.filter(), since).await?;
            let group = named(&letters.groups, name)?;
            Some(GroupKey { destination: group.destination.clone(), error: group.error.clone() })
        }
    };
    let filter = EventFilter { failed_since: Some(since), ..which.filter() };
    Ok(JobScope { filter, group, replay_to: None })
}

fn window(arguments: &Arguments) -> humantime::FormattedDuration {
    humantime::format_duration(arguments.which.within)
}

fn shown(expected: Preview) -> String {
    let events = count(expected.count, "failed event");
    if expected.at_least { format!("at least {events}") } else { events }
}

/// Shows the progress until the job has ended: a bar at a terminal, lines elsewhere. Ctrl-C cancels it after its batch.
async fn watch(desk: &Desk, mut job: Job, session: &Session) -> anyhow::Result<Job> {
    let bar = bar(&job, session);
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    let (mut glances, mut cancelled) = (0, false);
    while job.is_running() {
        tokio::select! {
            () = tokio::time::sleep(GLANCE) => {}
            _ = &mut interrupted, if !cancelled => {
                cancelled = true;
                desk.cancel(job.id, &who()).await?;
            }
        }
        glances += 1;
        job = desk.job(job.id).await?;
        let done = job.done;
        match &bar {
            Some(bar) => bar.set_position(done),
            None if glances % TOLD_EVERY == 0 => {
                session.output.note(&format!("{done} of {}, {:.0}/s", shown(job.expected), job.speed()));
            }
            None => {}
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(job)
}

fn bar(job: &Job, session: &Session) -> Option<ProgressBar> {
    if session.output.is_json() || !std::io::stderr().is_terminal() {
        return None;
    }
    let template = "{wide_bar} {pos}/{len} events, {per_sec}, {eta} left";
    let bar = ProgressBar::new(job.expected.count);
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    Some(bar)
}

fn answer(job: &Job, session: &Session) -> anyhow::Result<()> {
    if job.state == JobState::Failed {
        let why = job.error.as_deref().unwrap_or("the job failed");
        anyhow::bail!("{why}; {} became due before", count(job.changed, "event"));
    }
    let cancelled = job.state == JobState::Cancelled;
    let answer = json!({
        "changed": job.changed, "refused": job.refused, "cancelled": cancelled,
        "seconds": job.took.as_secs_f64(),
    });
    Ok(session.output.answer(&answer, || {
        let refused = match job.refused {
            0 => String::new(),
            refused => format!("; {refused} had changed in the meantime and were skipped"),
        };
        let broken = if cancelled { "; cancelled" } else { "" };
        format!("{} due now{refused}{broken}", count(job.changed, "event"))
    })?)
}
