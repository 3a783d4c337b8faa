//! `--liveness-file`: a file whose modification time shows when the claim loop last completed a claim. No timer touches it,
//! so a probe of the file notices a relay that hangs, or whose database does not respond.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use pillarbox::{Observed, Observer};

/// The shortest interval between two touches.
const EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Liveness {
    file: Arc<Touched>,
    touched_at: Mutex<Option<Instant>>,
}

struct Touched {
    path: PathBuf,
    /// Whether a touch is running. A file system that hangs must not use up threads.
    under_way: AtomicBool,
    /// Whether the last touch failed, so that an error is logged once, and its end too.
    in_trouble: AtomicBool,
}

impl Liveness {
    /// Fails if the file cannot be written. The file is first touched after the first claim of the loop.
    pub(crate) fn new(path: &Path) -> anyhow::Result<Self> {
        try_out(path).with_context(|| {
            format!(
                "the liveness file {} cannot be written; choose another file, or create its directory",
                path.display()
            )
        })?;
        let (under_way, in_trouble) = (AtomicBool::new(false), AtomicBool::new(false));
        let file = Touched { path: path.to_owned(), under_way, in_trouble };
        Ok(Self { file: Arc::new(file), touched_at: Mutex::new(None) })
    }

    fn is_time(&self, now: Instant) -> bool {
        let mut touched_at = self.touched_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = touched_at.is_none_or(|at| now.duration_since(at) >= EVERY);
        if is_time {
            *touched_at = Some(now);
        }
        is_time
    }
}

impl Observer for Liveness {
    fn turned(&self) -> Observed {
        if self.is_time(Instant::now()) && !self.file.under_way.swap(true, Ordering::AcqRel) {
            let file = Arc::clone(&self.file);
            tokio::task::spawn_blocking(move || file.touch());
        }
        Ok(())
    }
}

impl Touched {
    fn touch(&self) {
        let touched = open(&self.path).and_then(|file| file.set_modified(SystemTime::now()));
        let was_in_trouble = self.in_trouble.swap(touched.is_err(), Ordering::Relaxed);
        match touched {
            Err(error) if !was_in_trouble => {
                tracing::warn!(file = %self.path.display(), %error, "touching the liveness file failed");
            }
            Ok(()) if was_in_trouble => {
                tracing::info!(file = %self.path.display(), "touching the liveness file works again");
            }
            _ => {}
        }
        self.under_way.store(false, Ordering::Release);
    }
}

/// Opens the file. Creates it again if it was deleted.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Tests whether the file can be written, without a trace: an old file keeps its time, and a new one is removed.
fn try_out(path: &Path) -> io::Result<()> {
    match OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            drop(open(path)?);
            std::fs::remove_file(path)
        }
        opened => opened.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_refused_and_one_that_can_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let refusal = Liveness::new(&directory.path().join("missing/alive")).err().unwrap().to_string();
        assert!(refusal.contains("missing/alive cannot be written"), "{refusal}");
        assert!(Liveness::new(directory.path()).is_err());

        let path = directory.path().join("alive");
        Liveness::new(&path).unwrap();
        assert!(!path.exists());
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        open(&path).unwrap().set_modified(long_ago).unwrap();
        Liveness::new(&path).unwrap();
        assert_eq!(path.metadata().unwrap().modified().unwrap(), long_ago);
    }

    #[test]
    fn it_is_touched_once_a_second_at_most() {
        let directory = tempfile::tempdir().unwrap();
        let liveness = Liveness::new(&directory.path().join("alive")).unwrap();
        let now = Instant::now();
        let after = |milliseconds| liveness.is_time(now + Duration::from_millis(milliseconds));
        assert_eq!([0, 1, 999, 1000, 1500, 2000].map(after), [true, false, false, true, false, true]);
    }
}
