//! Decode: reads the frames of a replication stream, and in them the messages of the output plugin `pgoutput`. Pure. What is in a
//! message of ours is read in `content.rs`.

use bytes::{Buf, Bytes};

use crate::store::postgres::lsn::Lsn;

/// A frame of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A transaction begins. It was committed at `commit`, and its parts follow.
    Begin { commit: Lsn, xid: u32 },
    /// A message that a transaction wrote.
    Message { prefix: Bytes, content: Bytes },
    /// A message that was written outside of a transaction, or in one that may have been rolled back.
    Loose { prefix: Bytes },
    /// The transaction ends. The log after `end` does not contain it.
    Commit { end: Lsn },
    /// Everything that was committed before `end` has been sent.
    Alive { end: Lsn, reply: bool },
    /// Something else, such as a change of a table.
    Other,
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
                let commit = take_lsn(&mut part)?;
                skip(&mut part, 8)?;
                Ok(Self::Begin { commit, xid: take_u32(&mut part)? })
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
                let length = take_u32(&mut part)? as usize;
                if part.len() < length {
                    return Err(SHORT);
                }
                Ok(Self::Message { prefix, content: part.split_to(length) })
            }
            _ => Ok(Self::Other),
        }
    }
}

fn take_u8(from: &mut Bytes) -> Result<u8, BadFrame> {
    if from.is_empty() { Err(SHORT) } else { Ok(from.get_u8()) }
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
        let begin = [&b"B"[..], &4_u64.to_be_bytes(), &[0; 8], &7_u32.to_be_bytes()].concat();
        assert_eq!(Frame::read(part(&begin)), Ok(Frame::Begin { commit: Lsn(4), xid: 7 }));
        let message = [&b"M\x01"[..], &[0; 8], b"pre\0", &3_u32.to_be_bytes(), b"abcdef"].concat();
        let read = Frame::Message { prefix: Bytes::from_static(b"pre"), content: Bytes::from_static(b"abc") };
        assert_eq!(Frame::read(part(&message)), Ok(read));
        let loose = [&b"M\0"[..], &[0; 8], b"pre\0", &0_u32.to_be_bytes()].concat();
        assert_eq!(Frame::read(part(&loose)), Ok(Frame::Loose { prefix: Bytes::from_static(b"pre") }));
        let commit = [&b"C\0"[..], &[9; 8], &5_u64.to_be_bytes(), &[0; 8]].concat();
        assert_eq!(Frame::read(part(&commit)), Ok(Frame::Commit { end: Lsn(5) }));
        assert_eq!(Frame::read(part(b"R")), Ok(Frame::Other));
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
        fn any_part_can_be_read(kind in proptest::sample::select(b"BCMO".to_vec()), body in proptest::collection::vec(0_u8.., 0..80)) {
            let _ = Frame::read(part(&[&[kind][..], &body].concat()));
        }
    }
}
