//! Traces: the W3C trace context of a span, and the trait of tracers that follow events through claim, send and settle. It
//! knows no exporter: that is the tracer's part.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use crate::event::StoredEvent;
use crate::sink::{Message, SendError};
use crate::store::{Claim, Settlement};

/// The header that carries the span context.
pub const TRACEPARENT: &str = "traceparent";

/// A span of a trace. As text it is the value of the header `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    /// Sixteen bytes, not all zero.
    pub trace_id: u128,
    /// Eight bytes, not all zero.
    pub span_id: u64,
    /// The lowest bit means that the trace is recorded.
    pub flags: u8,
}

impl SpanContext {
    /// Returns the producer's span from the event's header, or `None` if there is no valid one.
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

/// The error for text that is not a `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent; an example is 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
pub struct NotATraceparent;

impl FromStr for SpanContext {
    type Err = NotATraceparent;

    /// Parses a `traceparent`. Later versions begin like version 0 and may have more parts.
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

/// Follows events through a relay as spans. The relay waits for the calls, so they must be fast, never block and not panic.
pub trait Tracer: Send + Sync + 'static {
    /// Notes a claim that found events and began `took` ago. Returns its span.
    fn claimed(&self, claim: &Claim, took: Duration) -> Option<SpanContext>;

    /// Starts an attempt at a destination. `claim` is the span of the claim that took the event.
    fn sends(&self, message: &Message, destination: &str, claim: Option<SpanContext>) -> Box<dyn SendSpan>;

    /// Notes a settle: the verdicts are in the table, or could not be written.
    fn settled(&self, settled: &Settled<'_>);
}

/// The span of an attempt in progress. A dropped one was cancelled.
pub trait SendSpan: Send {
    /// Returns the span's context, which the receiver gets.
    fn context(&self) -> SpanContext;

    /// Ends the span. `error` is set if the attempt failed.
    fn end(self: Box<Self>, error: Option<&SendError>);
}

/// A settle that has ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Settled<'a> {
    /// The events and their verdicts.
    pub settlements: &'a [Settlement],
    /// The number of events that were lost to another relay. `None` if nothing could be written before the relay ended.
    pub lost: Option<usize>,
    /// The span of the claim, if all events came from the same one.
    pub claim: Option<SpanContext>,
    /// The spans of the attempts.
    pub sends: &'a [SpanContext],
    /// The duration of the settle.
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
