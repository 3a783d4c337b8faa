//! Opaque payloads for people: their content type, their size, and the beginning of their bytes in hexadecimal, as `hexdump -C`
//! writes it. Masks name values of JSON and cannot reach into bytes, so with any mask the bytes are not shown at all. Pure.

use std::fmt::{self, Display, Write as _};

use pillarbox::event::{Opaque, PAYLOAD_CONTENT_TYPE};
use pillarbox::store::EventDetail;
use serde::Serialize;

use crate::mask::Mask;

/// The number of bytes that are shown.
const SHOWN: usize = 256;
const PER_LINE: usize = 16;

/// What people see of an opaque payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OpaqueView {
    /// The content type.
    pub content_type: String,
    /// The number of bytes that receivers get; missing if the payload cannot be read.
    pub size: Option<usize>,
    /// The first bytes, 16 to a line; missing if values of payloads are masked, or if the payload cannot be read.
    pub hex: Option<String>,
    /// The reason why the payload cannot be read, and cannot be sent.
    pub problem: Option<String>,
}

impl OpaqueView {
    /// Returns what people see of these bytes.
    #[must_use]
    pub fn new(content_type: &str, bytes: &[u8], mask: &Mask) -> Self {
        let hex = mask.is_empty().then(|| dump(&bytes[..bytes.len().min(SHOWN)]));
        Self { content_type: content_type.to_owned(), size: Some(bytes.len()), hex, problem: None }
    }

    /// Returns what people see of an event's payload; `None` if it is JSON. The event must not have been masked before.
    #[must_use]
    pub fn of(detail: &EventDetail, mask: &Mask) -> Option<Self> {
        match Opaque::of(&detail.payload, &detail.headers) {
            Ok(opaque) => opaque.map(|opaque| Self::new(opaque.content_type, &opaque.bytes, mask)),
            Err(error) => Some(Self {
                content_type: detail.headers.get(PAYLOAD_CONTENT_TYPE).cloned().unwrap_or_default(),
                size: None,
                hex: None,
                problem: Some(error.to_string()),
            }),
        }
    }

    /// Returns whether there are more bytes than are shown.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.hex.is_some() && self.size.is_some_and(|size| size > SHOWN)
    }
}

/// The content type and the size on one line, and the bytes.
impl Display for OpaqueView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.content_type)?;
        match self.size {
            Some(size) => write!(f, ", {size} bytes")?,
            None => write!(f, ", unreadable: {}", self.problem.as_deref().unwrap_or_default())?,
        }
        match &self.hex {
            Some(hex) if !hex.is_empty() => write!(f, "\n{hex}")?,
            None if self.problem.is_none() => f.write_str("\n(hidden, because values of payloads are masked)")?,
            _ => {}
        }
        if self.is_cut() { f.write_str("\n…") } else { Ok(()) }
    }
}

/// Writes lines like `00000000  08 2a 12 05 68 65 6c 6c  6f 00                    |.*..hello.|`.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (number, line) in bytes.chunks(PER_LINE).enumerate() {
        if number > 0 {
            text.push('\n');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{:08x} ", number * PER_LINE);
        for place in 0..PER_LINE {
            if place % 8 == 0 {
                text.push(' ');
            }
            let _ = match line.get(place) {
                Some(byte) => write!(text, "{byte:02x} "),
                None => write!(text, "   "),
            };
        }
        let letters = line.iter().map(|byte| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' });
        let _ = write!(text, " |{}|", letters.collect::<String>());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_dumped_as_hexdump_does() {
        assert_eq!(dump(b""), "");
        assert_eq!(
            dump(b"\x08\x2a\x12\x05hello\x00<script>&more"),
            "00000000  08 2a 12 05 68 65 6c 6c  6f 00 3c 73 63 72 69 70  |.*..hello.<scrip|\n\
             00000010  74 3e 26 6d 6f 72 65                              |t>&more|"
        );
    }

    #[test]
    fn only_the_beginning_is_shown_and_nothing_with_a_mask() {
        let shown = OpaqueView::new("image/png", &[7; 1000], &Mask::default());
        assert_eq!((shown.size, shown.is_cut(), shown.hex.as_ref().unwrap().lines().count()), (Some(1000), true, 16));
        assert!(shown.to_string().starts_with("image/png, 1000 bytes\n00000000  07 07"), "{shown}");
        assert!(shown.to_string().ends_with("\n…"));
        let masked = OpaqueView::new("image/png", &[7; 10], &Mask::parse(&["$.card"]).unwrap());
        assert_eq!((masked.size, &masked.hex), (Some(10), &None));
        assert_eq!(masked.to_string(), "image/png, 10 bytes\n(hidden, because values of payloads are masked)");
    }
}
