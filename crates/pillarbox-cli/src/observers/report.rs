//! `--report`: one line of JSON on standard output for each outcome of an event, for programs that run the relay as a child
//! process.
//!
//! Lines wait in a queue that a separate thread writes. If the reader is slow and the queue is full, lines are dropped,
//! counted and reported. If the reader is gone, the report ends and the relay continues.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use pillarbox::delivery::{Change, Verdict};
use pillarbox::{Observed, Observer, Routes, StoredEvent};
use serde::Serialize;
use tokio::sync::oneshot;
use uuid::Uuid;

/// The size of the queue, in lines.
const QUEUED: usize = 100_000;
/// The number of lines that are written before dropped lines are reported.
const WRITTEN_AT_ONCE: usize = 1000;
/// The time for the reader to take the remaining lines after the relay has stopped.
const PATIENCE: Duration = Duration::from_secs(10);

/// Turns outcomes of events into lines.
pub(crate) struct Report {
    routes: Routes,
    queue: Arc<Queue>,
}

/// The writing thread.
pub(crate) struct Writing {
    queue: Arc<Queue>,
    ended: oneshot::Receiver<()>,
}

/// A line of the report. `attempts` counts the failed attempts so far.
#[derive(Serialize)]
struct Line<'a> {
    outcome: &'static str,
    id: Uuid,
    event_type: &'a str,
    aggregate_type: &'a str,
    aggregate_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<&'a str>,
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl Report {
    /// Starts to write to standard output. The routes determine the destination of an event.
    pub(crate) fn start(routes: Routes) -> anyhow::Result<(Self, Writing)> {
        // A separate handle: a reader that does not read must not block other output, or the exit.
        let out = io::stdout().as_fd().try_clone_to_owned().context("writing the report to standard output failed")?;
        Ok(Self::writing_to(File::from(out), routes, QUEUED))
    }

    fn writing_to(out: impl Write + Send + 'static, routes: Routes, most: usize) -> (Self, Writing) {
        let queue = Arc::new(Queue { most, state: Mutex::default(), changed: Condvar::new() });
        let (end, ended) = oneshot::channel();
        std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || {
                queue.write_all(out);
                // The receiver may be gone.
                let _ = end.send(());
            }
        });
        (Self { routes, queue: Arc::clone(&queue) }, Writing { queue, ended })
    }

    /// Returns the line of an outcome. Outages and waiting events have no outcome, so they have no line.
    fn line<'a>(&'a self, event: &'a StoredEvent, verdict: &'a Verdict) -> Option<Line<'a>> {
        let line = |outcome, destination, attempts, error| Line {
            outcome,
            id: event.id,
            event_type: &event.event_type,
            aggregate_type: &event.aggregate_type,
            aggregate_id: &event.aggregate_id,
            destination,
            attempts,
            error,
        };
        match &verdict.change {
            Change::Deliver => Some(line("sent", self.destination(event, verdict), event.attempts, None)),
            Change::Fail { error } => {
                let destination = verdict.failures.first().map(|attempt| attempt.destination.as_str());
                Some(line("dead_lettered", destination, verdict.attempts, Some(error)))
            }
            _ => verdict.retried_after().map(|attempt| {
                line("failed", Some(&attempt.destination), verdict.attempts, Some(&attempt.error.message))
            }),
        }
    }

    /// Returns the destination, if there is only one.
    fn destination(&self, event: &StoredEvent, verdict: &Verdict) -> Option<&str> {
        match self.routes.route(event)? {
            [only] if verdict.deliveries.is_empty() => Some(only),
            _ => None,
        }
    }
}

impl Observer for Report {
    fn settled(&self, event: &StoredEvent, verdict: &Verdict) -> Observed {
        if let Some(line) = self.line(event, verdict) {
            self.queue.push(serde_json::to_string(&line)?);
        }
        Ok(())
    }
}

impl Writing {
    /// Waits until everything is written after the relay has stopped, up to the timeout.
    pub(crate) async fn finish(self) {
        self.queue.lock().closed = true;
        self.queue.changed.notify_all();
        let ended = tokio::time::timeout(PATIENCE, self.ended).await.is_ok();
        let state = self.queue.lock();
        if ended && !state.gone {
            tracing::info!(lines = state.written, dropped = state.dropped_in_all, "report complete");
        } else {
            tracing::warn!(
                lines = state.written,
                "report incomplete: the reader was too slow or gone, and the remaining lines are lost"
            );
        }
    }
}

/// The queue of lines between the relay and the writing thread.
struct Queue {
    most: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    /// The number of dropped lines since the last report of them.
    dropped: u64,
    dropped_in_all: u64,
    written: u64,
    closed: bool,
    /// Whether the reader is gone.
    gone: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line, or drops it if the queue is full. Never waits for the reader.
    fn push(&self, line: String) {
        let mut state = self.lock();
        if state.gone {
            return;
        }
        if state.lines.len() < self.most {
            state.lines.push_back(line);
        } else {
            if state.dropped == 0 {
                tracing::warn!(waiting = self.most, "report reader is too slow; lines are dropped");
            }
            state.dropped += 1;
            state.dropped_in_all += 1;
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Writes lines until the queue is closed and empty, or the reader is gone.
    fn write_all(&self, out: impl Write) {
        let mut out = BufWriter::new(out);
        while let Some((lines, dropped)) = self.next() {
            let count = lines.len() as u64;
            if let Err(error) = write(&mut out, lines, dropped) {
                tracing::warn!(%error, "report reader is gone; the relay continues without the report");
                let mut state = self.lock();
                state.gone = true;
                state.lines = VecDeque::new();
                return;
            }
            self.lock().written += count;
        }
    }

    /// Returns the next lines, and the number of dropped ones; `None` at the end.
    fn next(&self) -> Option<(Vec<String>, u64)> {
        let nothing = |state: &mut State| state.lines.is_empty() && state.dropped == 0 && !state.closed;
        let mut state = self.changed.wait_while(self.lock(), nothing).unwrap_or_else(PoisonError::into_inner);
        let count = state.lines.len().min(WRITTEN_AT_ONCE);
        let (lines, dropped) = (state.lines.drain(..count).collect::<Vec<_>>(), std::mem::take(&mut state.dropped));
        (!lines.is_empty() || dropped > 0).then_some((lines, dropped))
    }
}

fn write(out: &mut impl Write, lines: Vec<String>, dropped: u64) -> io::Result<()> {
    for line in lines {
        writeln!(out, "{line}")?;
    }
    if dropped > 0 {
        writeln!(out, r#"{{"outcome":"dropped","count":{dropped}}}"#)?;
        tracing::warn!(lines = dropped, "report lines were dropped, because the reader was too slow");
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use pillarbox::Route;
    use pillarbox::delivery::{Answer, Delivery, judge};
    use pillarbox::{RetryPolicy, SendError};
    use serde_json::json;

    use super::*;

    /// Accepts a write only when it is told to.
    struct Slow(mpsc::Receiver<()>, mpsc::Sender<Vec<u8>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
            self.1.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn report(out: impl Write + Send + 'static, most: usize) -> (Report, Writing) {
        let routes = Routes::new(vec![Route::new("both", ["a", "b"]), Route::new("*", ["a"])]);
        Report::writing_to(out, routes, most)
    }

    fn told(event_type: &str, before: &[Delivery], answers: &[(&str, Answer)]) -> Option<serde_json::Value> {
        let (report, _writing) = report(io::sink(), 1);
        let mut event = StoredEvent::for_tests(event_type, "{}");
        event.attempts = before[0].attempts;
        let answers: Vec<_> = answers.iter().map(|(name, answer)| ((*name).to_owned(), answer.clone())).collect();
        let verdict = judge(before, false, &answers, &RetryPolicy::default(), None, 0.0);
        let line = report.line(&event, &verdict)?;
        Some(serde_json::to_value(&line).unwrap())
    }

    fn failed(error: SendError) -> Answer {
        Answer::Failed { error, took: Duration::ZERO }
    }

    #[test]
    fn a_line_says_what_became_of_an_event() {
        let line = told("x", &[Delivery::open("a", 2)], &[("a", Answer::Sent)]).unwrap();
        let id = line["id"].clone();
        assert_eq!(
            line,
            json!({ "outcome": "sent", "id": id, "event_type": "x", "aggregate_type": "Order", "aggregate_id": "42",
                    "destination": "a", "attempts": 2 })
        );
        let line = told("x", &[Delivery::open("a", 3)], &[("a", failed(SendError::retry("no")))]).unwrap();
        assert_eq!((&line["outcome"], &line["attempts"], &line["error"]), (&json!("failed"), &json!(4), &json!("no")));
        let line = told("x", &[Delivery::open("a", 4)], &[("a", failed(SendError::retry("no")))]).unwrap();
        assert_eq!((&line["outcome"], &line["attempts"]), (&json!("dead_lettered"), &json!(5)));
        assert_eq!((&line["destination"], &line["error"]), (&json!("a"), &json!("no")));
        let two = [Delivery::open("a", 0), Delivery::open("b", 0)];
        let line = told("both", &two, &[("a", Answer::Sent), ("b", Answer::Sent)]).unwrap();
        assert_eq!((&line["outcome"], line.get("destination")), (&json!("sent"), None));
        let line = told("both", &two, &[("a", Answer::Sent), ("b", failed(SendError::retry("no")))]).unwrap();
        assert_eq!((&line["outcome"], &line["destination"]), (&json!("failed"), &json!("b")));
    }

    #[test]
    fn an_outage_is_no_outcome() {
        let error = SendError::unavailable("down");
        let parked = Answer::Parked { error: Some(error.clone()), tried: None };
        let postponed = Answer::Postponed { error, took: Duration::ZERO, after: Duration::ZERO };
        for answer in [parked, postponed, Answer::Released] {
            assert!(told("x", &[Delivery::open("a", 0)], &[("a", answer)]).is_none());
        }
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_how_many_lines_were_dropped() {
        let ((go, told), (out, read)) = (mpsc::channel(), mpsc::channel());
        let (report, writing) = report(Slow(told, out), 3);
        report.queue.push("first".to_owned());
        while !report.queue.lock().lines.is_empty() {
            std::thread::yield_now();
        }
        (0..5).for_each(|number| report.queue.push(number.to_string()));
        (0..2).for_each(|_| go.send(()).unwrap());
        writing.finish().await;
        let read: Vec<u8> = read.try_iter().flatten().collect();
        assert_eq!(String::from_utf8(read).unwrap(), "first\n0\n1\n2\n{\"outcome\":\"dropped\",\"count\":2}\n");
    }

    #[tokio::test]
    async fn a_reader_that_is_gone_ends_the_report_only() {
        let ((go, told), (out, read)) = (mpsc::channel::<()>(), mpsc::channel());
        let (report, writing) = report(Slow(told, out), 3);
        drop((go, read));
        report.queue.push("unread".to_owned());
        while !report.queue.lock().gone {
            std::thread::yield_now();
        }
        report.queue.push("unread".to_owned());
        assert!(report.queue.lock().lines.is_empty());
        writing.finish().await;
    }
}
