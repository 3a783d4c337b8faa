//! A Celery worker, as installed by `make setup`, with an application that a test provides.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::Program;

/// The timeout of a worker's start. Python imports a lot first, and a whole test run keeps the machine busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The versions of Celery that the tests use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Celery {
    /// The newest version.
    Newest,
    /// The oldest supported version, 5.3.
    Oldest,
}

impl Celery {
    fn program(self) -> PathBuf {
        let environment = match self {
            Self::Newest => ".venv",
            Self::Oldest => ".venv-celery53",
        };
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let celery = root.join(environment).join("bin/celery");
        assert!(celery.exists(), "there is no {}; run `make setup`", celery.display());
        celery
    }
}

/// A running worker: one process with threads for the tasks. It is killed when it is dropped.
#[derive(Debug)]
pub struct CeleryWorker {
    program: Program,
}

impl CeleryWorker {
    /// Starts a worker of the application in the file `app`, with these environment variables, and waits until it
    /// consumes.
    ///
    /// # Panics
    /// When Celery is missing, or the worker does not start, with its output.
    pub async fn start(celery: Celery, app: &Path, environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(celery.program());
        command.arg("--workdir").arg(app.parent().expect("a file is in a directory"));
        command.arg("--app").arg(app.file_stem().expect("a file has a name"));
        command.args(["worker", "--pool", "threads", "--concurrency", "4", "--loglevel", "INFO"]);
        command.args(["--without-gossip", "--without-mingle", "--without-heartbeat"]);
        command.envs(environment.iter().copied()).env("PYTHONDONTWRITEBYTECODE", "1");
        let program = Program::start(command);
        program.wait_for_line(" ready.", PATIENCE).await.expect("the worker starts");
        Self { program }
    }

    /// Returns its output so far.
    pub fn lines(&self) -> Vec<String> {
        self.program.lines()
    }
}
