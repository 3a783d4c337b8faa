//! Splits a batch into chunks, and collects the results. A chunk is one command: one entry, or entries of one run. Of each run,
//! one chunk is sent per round, so that no entry is stored after one of its run that was not. Pure.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use ::redis::cluster_routing::Slot;
use pillarbox::{Message, SendError, runs};

use super::entry::Entry;
use super::limits::Limits;
use super::{Stored, is_outage};

/// The most bytes of a script with several entries. Redis serves nobody else while it runs.
const CHUNK_BYTES: usize = 8 << 20;

pub(super) struct Plan<'a> {
    runs: Vec<Run<'a>>,
    results: Vec<Option<Result<(), SendError>>>,
}

struct Run<'a> {
    entries: Arc<[Entry<'a>]>,
    /// The entries that are still to be sent.
    open: Range<usize>,
    /// The places of its messages in the batch.
    places: Range<usize>,
}

/// Entries of one run and one stream.
#[derive(Clone)]
pub(super) struct Chunk<'a> {
    run: usize,
    entries: Arc<[Entry<'a>]>,
    range: Range<usize>,
}

impl<'a> Chunk<'a> {
    pub(super) fn entries(&self) -> std::slice::Iter<'_, Entry<'a>> {
        self.entries[self.range.clone()].iter()
    }

    pub(super) fn stream(&self) -> &str {
        &self.entries[self.range.start].stream
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries().map(Entry::bytes).sum()
    }
}

/// The chunks that are sent at once. Each list is one pipeline.
#[derive(Default)]
pub(super) struct Round<'a> {
    pub(super) together: Vec<Vec<Chunk<'a>>>,
    /// Messages that the server may refuse together with all others on their connection.
    pub(super) alone: Vec<Vec<Chunk<'a>>>,
}

impl Round<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.together.is_empty() && self.alone.is_empty()
    }
}

impl<'a> Plan<'a> {
    /// Writes the entries of a batch. A message that cannot be written ends its run.
    pub(super) fn new(
        batch: &'a [Message],
        write: impl Fn(usize, &'a Message) -> Result<Entry<'a>, SendError>,
    ) -> Self {
        let mut plan = Self { runs: Vec::new(), results: vec![None; batch.len()] };
        let mut place = 0;
        for run in runs(batch) {
            let places = place..place + run.len();
            let (mut entries, mut failure) = (Vec::with_capacity(run.len()), None);
            for (position, message) in places.clone().zip(run) {
                match write(position, message) {
                    Ok(entry) => entries.push(entry),
                    Err(error) => {
                        failure = Some((position, error));
                        break;
                    }
                }
            }
            plan.runs.push(Run { open: 0..entries.len(), entries: entries.into(), places: places.clone() });
            if let Some((position, error)) = failure {
                plan.refuse(position..places.end, &error);
            }
            place = places.end;
        }
        plan
    }

    /// Rejects messages that are larger than the server takes. Such a message ends its run.
    pub(super) fn check_sizes(&mut self, limits: &Limits) {
        for index in 0..self.runs.len() {
            let run = &self.runs[index];
            let too_large = run.entries[run.open.clone()].iter().find_map(|entry| {
                let (longest, bytes) = (entry.longest(), entry.bytes());
                let (what, bytes, limit) = if longest > limits.field {
                    ("proto-max-bulk-len", longest, limits.field)
                } else if bytes > limits.command {
                    ("client-query-buffer-limit", bytes, limits.command)
                } else {
                    return None;
                };
                let reason = format!("the message is too large: {bytes} bytes, and the server takes {limit} ({what})");
                Some((entry.position, SendError::reject(reason)))
            });
            if let Some((position, error)) = too_large {
                let run = &mut self.runs[index];
                let places = position..run.places.end;
                run.open.end = position - run.places.start;
                self.refuse(places, &error);
            }
        }
    }

    /// Returns the next chunk of each run. In a cluster, a pipeline is for one slot.
    pub(super) fn next_round(&self, limits: &Limits, is_cluster: bool) -> Round<'a> {
        let mut round = Round::default();
        let mut slots: HashMap<Slot, Vec<Chunk<'a>>> = HashMap::new();
        let mut whole = Vec::new();
        for (index, run) in self.runs.iter().enumerate() {
            let Some(chunk) = run.chunk(index, limits) else { continue };
            if limits.is_risky(chunk.bytes()) {
                round.alone.push(vec![chunk]);
            } else if is_cluster {
                slots.entry(Slot::for_key(chunk.stream())).or_default().push(chunk);
            } else {
                whole.push(chunk);
            }
        }
        round.together.extend(slots.into_values().chain([whole]).filter(|chunks| !chunks.is_empty()));
        round
    }

    /// Records the results of chunks.
    pub(super) fn settle(&mut self, chunks: &[Chunk<'_>], stored: Vec<Stored>) {
        for (chunk, Stored { count, error, .. }) in chunks.iter().zip(stored) {
            let run = &mut self.runs[chunk.run];
            let first = run.places.start + run.open.start;
            self.results[first..first + count].fill(Some(Ok(())));
            run.open.start += count;
            if let Some(error) = error {
                self.end(chunk.run, &error);
            }
        }
    }

    /// Records an error of the connection for all that is left of these runs.
    pub(super) fn fail(&mut self, chunks: &[Chunk<'_>], error: &SendError) {
        chunks.iter().for_each(|chunk| self.end(chunk.run, error));
    }

    fn end(&mut self, run: usize, error: &SendError) {
        let run = &mut self.runs[run];
        let (first, last) = (run.places.start + run.open.start, run.places.start + run.open.end);
        run.open.start = run.open.end;
        self.refuse(first..last, error);
    }

    /// Records the error of the first of these messages, which belong to one run.
    fn refuse(&mut self, places: Range<usize>, error: &SendError) {
        let behind = if is_outage(error) {
            error.clone()
        } else {
            SendError::retry("not sent: an earlier event of its aggregate was not stored")
        };
        for (number, place) in places.enumerate() {
            self.results[place] = Some(Err(if number == 0 { error.clone() } else { behind.clone() }));
        }
    }

    pub(super) fn has_outage(&self) -> bool {
        self.results.iter().flatten().any(|result| result.as_ref().is_err_and(is_outage))
    }

    /// Returns the result of each message. `failed` is the error of those that have none yet.
    pub(super) fn into_results(self, failed: Option<SendError>) -> Vec<Result<(), SendError>> {
        let failed = failed.unwrap_or_else(|| SendError::unavailable("not sent"));
        self.results.into_iter().map(|result| result.unwrap_or_else(|| Err(failed.clone()))).collect()
    }
}

impl<'a> Run<'a> {
    /// Returns the next entries that one command can carry. There is at least one, unless the run is at its end.
    fn chunk(&self, run: usize, limits: &Limits) -> Option<Chunk<'a>> {
        let mut open = self.entries[self.open.clone()].iter();
        let first = open.next()?;
        let (mut count, mut bytes) = (1, first.bytes());
        for entry in open {
            bytes += entry.bytes();
            if entry.stream != first.stream || bytes > CHUNK_BYTES.min(limits.command) || limits.is_risky(bytes) {
                break;
            }
            count += 1;
        }
        Some(Chunk { run, entries: Arc::clone(&self.entries), range: self.open.start..self.open.start + count })
    }
}
