//! An event as an entry of a stream: the field `body`, and a field for each header. Pure.

use std::borrow::Cow;

use pillarbox::{Message, SendError};

use crate::content::Content;
use crate::template::Template;

/// The field with the payload or the envelope. An event's own header of this name does not travel.
pub(super) const BODY: &str = "body";
/// The prefix of CloudEvents attributes in binary mode.
const PREFIX: &str = "ce_";
/// Lua cannot pass more arguments to a command than fit onto its stack, which holds 8000.
const FIELDS: usize = 3000;

/// A message as it is written.
pub(super) struct Entry<'a> {
    /// The message's place in the batch.
    pub(super) position: usize,
    pub(super) stream: Cow<'a, str>,
    /// The event's id.
    pub(super) id: String,
    headers: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    body: Cow<'a, [u8]>,
}

impl<'a> Entry<'a> {
    pub(super) fn of(
        position: usize,
        message: &'a Message,
        stream: &'a Template,
        content: &'a Content,
    ) -> Result<Self, SendError> {
        let stream = stream.render(message)?;
        if stream.is_empty() {
            return Err(SendError::reject("the name of the stream is empty for this event"));
        }
        let mut headers = content.headers(message, PREFIX);
        headers.retain(|(name, _)| name != BODY);
        if headers.len() >= FIELDS {
            return Err(SendError::reject(format!("the event has more than {FIELDS} headers")));
        }
        Ok(Self { position, stream, id: message.id.to_string(), headers, body: content.body(message)? })
    }

    /// Returns the names and values in turn.
    pub(super) fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let headers = self.headers.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        [BODY.as_bytes(), &*self.body].into_iter().chain(headers)
    }

    /// Returns the number of names and values.
    pub(super) fn width(&self) -> usize {
        2 + 2 * self.headers.len()
    }

    /// Returns the bytes of the longest field.
    pub(super) fn longest(&self) -> usize {
        self.fields().map(<[u8]>::len).max().unwrap_or_default().max(self.stream.len())
    }

    /// Returns the bytes of all fields.
    pub(super) fn bytes(&self) -> usize {
        self.fields().map(<[u8]>::len).sum::<usize>() + self.stream.len()
    }
}
