//! Decode: reads the frames of a replication stream, and in them the messages of the output plugin `pgoutput`. Pure. What is in a
//! message of ours is read in `content.rs`, and what is in a row in `row.rs`.

use bytes::{Buf, Bytes};
use chrono::{DateTime, Utc};

use crate::store::postgres::lsn::Lsn;

/// A frame of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A transaction begins. It was committed at `commit`, and its parts follow.
    Begin { commit: Lsn, at: DateTime<Utc>, xid: u32 },
    /// A message that a transaction wrote.
    Message { prefix: Bytes, content: Bytes },
    /// A message that was written outside of a transaction, or in one that may have been rolled back.
    Loose { prefix: Bytes },
    /// A table of the publication, before its first row and after each change of its columns.
    Relation(Relation),
    /// A row that a transaction inserted, in the columns of its table.
    Row { table: u32, values: Vec<Value> },
    /// The transaction ends. The log after `end` does not contain it.
    Commit { end: Lsn },
    /// Everything that was committed before `end` has been sent.
    Alive { end: Lsn, reply: bool },
    /// Something else, such as an update of a row.
    Other,
}

/// A table as it is when its next row is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Relation {
    pub(super) id: u32,
    pub(super) schema: String,
    pub(super) name: String,
    /// The name and the type of each column.
    pub(super) columns: Vec<(String, u32)>,
}

/// The value of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    /// As the type's output function writes it.
    Text(Bytes),
    /// A large value that an update did not change, or one in a binary form, which was not asked for.
    Unsent,
}

/// A frame that is not PostgreSQL's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of the replication stream cannot be read: {0}")]
pub(super) struct BadFrame(&'static str);

const SHORT: BadFrame = BadFrame("it is too short");

impl Frame {
    /// Reads a frame.
    pub(super) fn read(mut frame: Bytes) -> Result<Self, BadFrame> {
        match take_u8(&mut frame)? {
            b'w' => {
                // The positions of the part and of the server, and the time.
                skip(&mut frame, 24)?;
                Self::read_part(frame)
            }
            b'k' => {
                let end = take_lsn(&mut frame)?;
                skip(&mut frame, 8)?;
                Ok(Self::Alive { end, reply: take_u8(&mut frame)? != 0 })
            }
            _ => Err(BadFrame("its kind is unknown")),
        }
    }

    fn read_part(mut part: Bytes) -> Result<Self, BadFrame> {
        match take_u8(&mut part)? {
            b'B' => {
                let (commit, at) = (take_lsn(&mut part)?, take_lsn(&mut part)?);
                Ok(Self::Begin { commit, at: moment(at.0), xid: take_u32(&mut part)? })
            }
            b'R' => read_relation(part).map(Self::Relation),
            b'I' => {
                let table = take_u32(&mut part)?;
                // The new row; an insert has no old one.
                skip(&mut part, 1)?;
                Ok(Self::Row { table, values: read_row(part)? })
            }
            b'C' => {
                skip(&mut part, 9)?;
                Ok(Self::Commit { end: take_lsn(&mut part)? })
            }
            b'M' => {
                let flags = take_u8(&mut part)?;
                skip(&mut part, 8)?;
                let prefix = take_text(&mut part)?;
                if flags & 1 == 0 {
                    return Ok(Self::Loose { prefix });
                }
                Ok(Self::Message { prefix, content: take_bytes(&mut part)? })
            }
            _ => Ok(Self::Other),
        }
    }
}

/// Returns a time in microseconds since 2000-01-01, of which the server has no infinite ones here.
fn moment(micros: u64) -> DateTime<Utc> {
    const EPOCH: i64 = 946_684_800_000_000;
    let exact = micros.cast_signed().checked_add(EPOCH).and_then(DateTime::from_timestamp_micros);
    exact.unwrap_or_default()
}

fn read_relation(mut part: Bytes) -> Result<Relation, BadFrame> {
    let id = take_u32(&mut part)?;
    let (schema, name) = (take_name(&mut part)?, take_name(&mut part)?);
    // The replica identity.
    skip(&mut part, 1)?;
    let columns = (0..take_u16(&mut part)?).map(|_| {
        // Whether it is part of the key.
        skip(&mut part, 1)?;
        let column = (take_name(&mut part)?, take_u32(&mut part)?);
        // The modifier of the type.
        skip(&mut part, 4)?;
        Ok(column)
    });
    Ok(Relation { id, columns: columns.collect::<Result<_, _>>()?, schema, name })
}

fn read_row(mut part: Bytes) -> Result<Vec<Value>, BadFrame> {
    let values = (0..take_u16(&mut part)?).map(|_| match take_u8(&mut part)? {
        b'n' => Ok(Value::Null),
        b'u' => Ok(Value::Unsent),
        kind @ (b't' | b'b') => {
            let text = take_bytes(&mut part)?;
            Ok(if kind == b't' { Value::Text(text) } else { Value::Unsent })
        }
        _ => Err(BadFrame("the kind of a value is unknown")),
    });
    values.collect()
}

fn take_u8(from: &mut Bytes) -> Result<u8, BadFrame> {
    if from.is_empty() { Err(SHORT) } else { Ok(from.get_u8()) }
}

fn take_u16(from: &mut Bytes) -> Result<u16, BadFrame> {
    if from.len() < 2 { Err(SHORT) } else { Ok(from.get_u16()) }
}

fn take_u32(from: &mut Bytes) -> Result<u32, BadFrame> {
    if from.len() < 4 { Err(SHORT) } else { Ok(from.get_u32()) }
}

fn take_lsn(from: &mut Bytes) -> Result<Lsn, BadFrame> {
    if from.len() < 8 { Err(SHORT) } else { Ok(Lsn(from.get_u64())) }
}

fn skip(from: &mut Bytes, bytes: usize) -> Result<(), BadFrame> {
    if from.len() < bytes {
        return Err(SHORT);
    }
    from.advance(bytes);
    Ok(())
}

/// Takes a length and so many bytes.
fn take_bytes(from: &mut Bytes) -> Result<Bytes, BadFrame> {
    let length = take_u32(from)? as usize;
    if from.len() < length {
        return Err(SHORT);
    }
    Ok(from.split_to(length))
}

fn take_name(from: &mut Bytes) -> Result<String, BadFrame> {
    let name = take_text(from)?;
    String::from_utf8(name.into()).map_err(|_| BadFrame("a name is not UTF-8"))
}

fn take_text(from: &mut Bytes) -> Result<Bytes, BadFrame> {
    let end = from.iter().position(|byte| *byte == 0).ok_or(SHORT)?;
    let text = from.split_to(end);
    from.advance(1);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(body: &[u8]) -> Bytes {
        let mut frame = vec![b'w'];
        frame.extend([0; 24]);
        frame.extend(body);
        frame.into()
    }

    #[test]
    fn the_parts_of_a_transaction_are_read() {
        let begin = [&b"B"[..], &4_u64.to_be_bytes(), &1_000_000_u64.to_be_bytes(), &7_u32.to_be_bytes()].concat();
        let at = "2000-01-01T00:00:01Z".parse().unwrap();
        assert_eq!(Frame::read(part(&begin)), Ok(Frame::Begin { commit: Lsn(4), at, xid: 7 }));
        let message = [&b"M\x01"[..], &[0; 8], b"pre\0", &3_u32.to_be_bytes(), b"abcdef"].concat();
        let read = Frame::Message { prefix: Bytes::from_static(b"pre"), content: Bytes::from_static(b"abc") };
        assert_eq!(Frame::read(part(&message)), Ok(read));
        let loose = [&b"M\0"[..], &[0; 8], b"pre\0", &0_u32.to_be_bytes()].concat();
        assert_eq!(Frame::read(part(&loose)), Ok(Frame::Loose { prefix: Bytes::from_static(b"pre") }));
        let commit = [&b"C\0"[..], &[9; 8], &5_u64.to_be_bytes(), &[0; 8]].concat();
        assert_eq!(Frame::read(part(&commit)), Ok(Frame::Commit { end: Lsn(5) }));
        assert_eq!(Frame::read(part(b"Y")), Ok(Frame::Other));
    }

    #[test]
    fn a_table_and_its_rows_are_read() {
        let relation = b"R\0\0\0\x07shop\0events\0d\0\x02\x01id\0\0\0\x0b\x86\xff\xff\xff\xff\0payload\0\0\0\x0e\xda\xff\xff\xff\xff";
        let columns = vec![("id".to_owned(), 2950), ("payload".to_owned(), 3802)];
        let read = Relation { id: 7, schema: "shop".to_owned(), name: "events".to_owned(), columns };
        assert_eq!(Frame::read(part(relation)), Ok(Frame::Relation(read)));
        let row = b"I\0\0\0\x07N\0\x04t\0\0\0\x02abnub\0\0\0\x01x";
        let values = vec![Value::Text(Bytes::from_static(b"ab")), Value::Null, Value::Unsent, Value::Unsent];
        assert_eq!(Frame::read(part(row)), Ok(Frame::Row { table: 7, values }));
        for end in 5..row.len() - 1 {
            assert_eq!(Frame::read(part(&row[..end])), Err(SHORT), "{end}");
        }
    }

    #[test]
    fn a_keepalive_says_how_far_the_server_has_sent() {
        let alive = [&b"k"[..], &9_u64.to_be_bytes(), &[0; 8], &[1]].concat();
        assert_eq!(Frame::read(alive.into()), Ok(Frame::Alive { end: Lsn(9), reply: true }));
    }

    #[test]
    fn a_message_that_is_cut_is_an_error() {
        let message = [&b"M\x01"[..], &[0; 8], b"pre\0", &9_u32.to_be_bytes(), b"abc"].concat();
        assert_eq!(Frame::read(part(&message)), Err(SHORT));
        assert_eq!(Frame::read(part(b"M\x01")), Err(SHORT));
        assert_eq!(Frame::read(Bytes::new()), Err(SHORT));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_can_be_read(kind in proptest::sample::select(b"wk".to_vec()), body in proptest::collection::vec(0_u8.., 0..80)) {
            let _ = Frame::read([&[kind][..], &body].concat().into());
        }

        #[test]
        fn any_part_can_be_read(kind in proptest::sample::select(b"BCIMOR".to_vec()), body in proptest::collection::vec(0_u8.., 0..80)) {
            let _ = Frame::read(part(&[&[kind][..], &body].concat()));
        }
    }
}
