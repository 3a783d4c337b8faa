//! Traces: where a span stands, as the W3C's trace context writes it, and whoever follows events through claim, send and
//! settle. It knows no exporter: what becomes of spans is the tracer's affair.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use crate::event::StoredEvent;
use crate::sink::{Message, SendError};
use crate::store::{Claim, Settlement};

/// The header that names a span.
pub const TRACEPARENT: &str = "traceparent";

/// Which span of which trace. As text it is the value of the header `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    /// Sixteen bytes, not all zero.
    pub trace_id: u128,
    /// Eight bytes, not all zero.
    pub span_id: u64,
    /// The last bit says that the trace is recorded.
    pub flags: u8,
}

impl SpanContext {
    /// The producer's span, by the event's header; `None` when it has none that can be read.
    #[must_use]
    pub fn of_producer(event: &StoredEvent) -> Option<Self> {
        event.headers.get(TRACEPARENT)?.parse().ok()
    }
}

impl Display for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

/// It is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent, which is like 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
pub struct NotATraceparent;

impl FromStr for SpanContext {
    type Err = NotATraceparent;

    /// Later versions begin like the first one and may go on.
    fn from_str(text: &str) -> Result<Self, NotATraceparent> {
        let mut parts = text.trim().split('-');
        let mut hexadecimal = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            let plain = part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            u128::from_str_radix(part, 16).ok().filter(|_| plain)
        };
        let mut read = || {
            let version = hexadecimal(2).filter(|version| *version != 0xff)?;
            let trace_id = hexadecimal(32).filter(|id| *id != 0)?;
            let span_id = u64::try_from(hexadecimal(16)?).ok().filter(|id| *id != 0)?;
            let flags = u8::try_from(hexadecimal(2)?).ok()?;
            Some((version, Self { trace_id, span_id, flags }))
        };
        let (version, context) = read().ok_or(NotATraceparent)?;
        if version == 0 && parts.next().is_some() { Err(NotATraceparent) } else { Ok(context) }
    }
}

/// Follows events through a relay, as spans. It is called on the way, so it must be quick, wait for nothing and not panic.
pub trait Tracer: Send + Sync + 'static {
    /// A claim has found something; it began `took` ago. Answers its span.
    fn claimed(&self, claim: &Claim, took: Duration) -> Option<SpanContext>;

    /// An attempt at a destination begins. `claim` is the span of the claim that found the event.
    fn sends(&self, message: &Message, destination: &str, claim: Option<SpanContext>) -> Box<dyn SendSpan>;

    /// What became of events stands in the table, or could not be written.
    fn settled(&self, settled: &Settled<'_>);
}

/// The span of an attempt, as long as it goes on. One that is dropped was broken off.
pub trait SendSpan: Send {
    /// Which span it is: what the receiver is told.
    fn context(&self) -> SpanContext;

    /// It was answered; `error` says why it failed.
    fn end(self: Box<Self>, error: Option<&SendError>);
}

/// A settle, when it is over.
#[derive(Debug)]
#[non_exhaustive]
pub struct Settled<'a> {
    /// What became of which events.
    pub settlements: &'a [Settlement],
    /// How many of them somebody else had meanwhile; `None`: nothing could be written before the relay ended.
    pub lost: Option<usize>,
    /// The span of the claim that found them, if it was one.
    pub claim: Option<SpanContext>,
    /// The spans of their attempts.
    pub sends: &'a [SpanContext],
    /// How long it took.
    pub took: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn it_is_written_as_it_is_read() {
        let context: SpanContext = TEXT.parse().unwrap();
        assert_eq!((context.span_id, context.flags), (0xb7ad_6b71_6920_3331, 1));
        assert_eq!(context.to_string(), TEXT);
        let later = TEXT.replacen("00", "01", 1) + "-more";
        assert_eq!(later.parse(), Ok(context));
    }

    #[test]
    fn what_is_no_traceparent_is_none() {
        let zero = "0".repeat(32);
        let others = [
            "",
            "mine",
            &TEXT[..54],
            &format!("{TEXT}-more"),
            &TEXT.replacen("00", "ff", 1),
            &TEXT.to_uppercase(),
            &TEXT.replace("0af7651916cd43dd8448eb211c80319c", &zero),
            &TEXT.replace("b7ad6b7169203331", &zero[..16]),
            &TEXT.replace("0af7", "+af7"),
        ];
        for text in others {
            assert_eq!(text.parse::<SpanContext>(), Err(NotATraceparent), "{text}");
        }
    }
}
