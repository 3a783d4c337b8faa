//! The commands that store entries: XADD for one entry, and a script for the entries of a run and for the check for
//! duplicates. Pure: nothing is sent.

use std::time::Duration;

use ::redis::{Cmd, Pipeline, Script, Value};
use pillarbox::SendError;

use super::entry::Entry;
use super::plan::Chunk;
use super::{Stored, failure};

/// Writes the commands of chunks, and reads their replies.
pub(super) struct Writer {
    script: Script,
    create: bool,
    max_length: Option<usize>,
    window: Option<Duration>,
}

impl Writer {
    pub(super) fn new(create: bool, max_length: Option<usize>, window: Option<Duration>) -> Self {
        Self { script: Script::new(include_str!("store.lua")), create, max_length, window }
    }

    /// Adds the command of a chunk. With `load`, the text of the script is sent instead of its hash.
    pub(super) fn write(&self, commands: &mut Pipeline, chunk: &Chunk<'_>, load: bool) {
        if self.is_plain(chunk) {
            let command = commands.cmd("XADD").arg(chunk.stream());
            let command = self.options().iter().fold(command, |command, option| command.arg(option));
            chunk.entries().flat_map(Entry::fields).fold(command, |command, field| command.arg(field));
        } else {
            commands.add_command(self.run_script(chunk, load));
        }
    }

    fn run_script(&self, chunk: &Chunk<'_>, load: bool) -> Cmd {
        let mut command = if load {
            let mut command = ::redis::cmd("EVAL");
            command.arg(include_str!("store.lua"));
            command
        } else {
            let mut command = ::redis::cmd("EVALSHA");
            command.arg(self.script.get_hash());
            command
        };
        match self.window {
            Some(_) => {
                command.arg(1 + chunk.entries().len()).arg(chunk.stream());
                for entry in chunk.entries() {
                    command.arg(mark(chunk.stream(), &entry.id));
                }
            }
            None => {
                command.arg(1).arg(chunk.stream());
            }
        }
        let window = self.window.map_or(0, |window| window.as_millis().max(1) as u64);
        let options = self.options();
        command.arg(window).arg(options.len()).arg(&options);
        for entry in chunk.entries() {
            command.arg(entry.width());
            entry.fields().for_each(|field| {
                command.arg(field);
            });
        }
        command
    }

    fn is_plain(&self, chunk: &Chunk<'_>) -> bool {
        self.window.is_none() && chunk.entries().len() == 1
    }

    /// Returns the arguments of XADD between the stream and the fields.
    fn options(&self) -> Vec<String> {
        let mut options = Vec::with_capacity(5);
        if !self.create {
            options.push("NOMKSTREAM".to_owned());
        }
        if let Some(length) = self.max_length {
            options.extend(["MAXLEN".to_owned(), "~".to_owned(), length.to_string()]);
        }
        options.push("*".to_owned());
        options
    }

    pub(super) fn read(&self, chunk: &Chunk<'_>, reply: &Value, shown: &str) -> Stored {
        let stream = chunk.stream();
        let failed = |count, error| Stored { count, error: Some(error), lacks_script: false };
        let strange = || SendError::retry(format!("{shown} returned neither an id nor an error for XADD"));
        match reply {
            Value::ServerError(error) if error.code() == "NOSCRIPT" => {
                Stored { lacks_script: true, ..failed(0, failure::server(error, stream, shown)) }
            }
            Value::ServerError(error) => failed(0, failure::server(error, stream, shown)),
            Value::Nil => failed(0, failure::no_stream(stream, shown)),
            Value::BulkString(_) | Value::SimpleString(_) if self.is_plain(chunk) => {
                Stored { count: 1, ..Stored::default() }
            }
            Value::Array(items) => match items.as_slice() {
                [Value::Int(count), rest @ ..] => {
                    let count = usize::try_from(*count).unwrap_or_default().min(chunk.entries().len());
                    let error = rest.first().and_then(text).map(|error| failure::in_script(&error, stream, shown));
                    let is_whole = error.is_some() || count == chunk.entries().len();
                    if is_whole { Stored { count, error, lacks_script: false } } else { failed(count, strange()) }
                }
                _ => failed(0, strange()),
            },
            _ => failed(0, strange()),
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

/// Returns the key that says that an event is in the stream: `{orders}:pillarbox:ID`. It is in the cluster's slot of the
/// stream.
pub(super) fn mark(stream: &str, id: &str) -> String {
    format!("{{{}}}:pillarbox:{id}", slot_name(stream))
}

/// Returns the part of a key that decides its slot: the part in the first braces, or the whole key.
fn slot_name(key: &str) -> &str {
    let inside = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(inside, _)| inside);
    inside.filter(|inside| !inside.is_empty()).unwrap_or(key)
}

/// Returns whether the marks of a stream are in its slot. A key with a stray brace has no hash tag that leads to its slot.
pub(super) fn can_be_marked(stream: &str) -> bool {
    !slot_name(stream).contains('}')
}

#[cfg(test)]
mod tests {
    use ::redis::cluster_routing::Slot;

    use super::*;

    #[test]
    fn a_mark_is_in_the_slot_of_its_stream() {
        for stream in ["orders", "{shop}.orders", "a{b", "a{b}c", "{a{b}c"] {
            assert!(can_be_marked(stream), "{stream}");
            assert_eq!(Slot::for_key(mark(stream, "1")), Slot::for_key(stream), "{stream}");
        }
        assert_eq!(mark("orders", "1"), "{orders}:pillarbox:1");
        for stream in ["a}b", "{}orders", "}"] {
            assert!(!can_be_marked(stream), "{stream}");
        }
    }
}
