//! A program as a child process: its output line by line, and the signals that end it gracefully or not.

use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time;

/// The signals that can be sent to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: shut down gracefully.
    Terminate,
    /// SIGINT, as sent by Ctrl-C. PostgreSQL ends its sessions, writes everything, and stops.
    Interrupt,
    /// SIGQUIT. PostgreSQL stops at once, and recovers at the next start.
    Quit,
    /// SIGKILL: end without a chance to react.
    Kill,
    /// SIGSTOP: freeze.
    Stop,
    /// SIGCONT: continue after a freeze.
    Continue,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Signal::Terminate => "TERM",
            Signal::Interrupt => "INT",
            Signal::Quit => "QUIT",
            Signal::Kill => "KILL",
            Signal::Stop => "STOP",
            Signal::Continue => "CONT",
        }
    }

    /// Sends the signal to the process `pid`. A process that has already ended is no error. After [`Signal::Stop`] no thread of
    /// the process runs any more.
    pub fn send(self, pid: u32) {
        // The shell's built-in `kill`, because the program of that name is not on every machine.
        let command = format!("kill -s {} {pid}", self.name());
        Command::new("sh").arg("-c").arg(command).stderr(Stdio::null()).status().expect("sh can be started");
        if self == Signal::Stop {
            let deadline = Instant::now() + STOPPING;
            while is_running(pid) {
                assert!(Instant::now() < deadline, "process {pid} has not stopped after {STOPPING:?}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// How long a process may take to stop.
const STOPPING: Duration = Duration::from_secs(30);

/// Returns whether a thread of the process is neither stopped nor ended. The signal stops one thread after another.
fn is_running(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| {
        let status = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state comes after the name, which is in parentheses and may contain some.
        let state = status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| !"TtZX".contains(state))
    })
}

/// A running program. It is killed when it is dropped.
#[derive(Debug)]
pub struct Program {
    child: Child,
    lines: watch::Receiver<Vec<String>>,
}

impl Program {
    /// Starts `command` and collects its standard output and error.
    ///
    /// # Panics
    /// When it cannot be started, or outside of a tokio runtime.
    pub fn start(command: Command) -> Self {
        let name = format!("{command:?}");
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {name}: {error}"));

        let (sender, lines) = watch::channel(Vec::new());
        tokio::spawn(collect(child.stdout.take().expect("stdout is piped"), sender.clone()));
        tokio::spawn(collect(child.stderr.take().expect("stderr is piped"), sender));
        Self { child, lines }
    }

    /// Returns the process id.
    ///
    /// # Panics
    /// When the program has ended and was awaited.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("the program is running")
    }

    /// Sends a signal. Does nothing when the program has ended.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.child.id() {
            signal.send(pid);
        }
    }

    /// Sends SIGKILL, and waits until the process is gone.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("an own child can be killed");
    }

    /// Sends SIGTERM, and waits until the program has ended, at most `timeout`.
    pub async fn terminate(&mut self, timeout: Duration) -> Result<ExitStatus> {
        self.signal(Signal::Terminate);
        self.wait(timeout).await
    }

    /// Waits until the program has ended by itself, at most `timeout`.
    pub async fn wait(&mut self, timeout: Duration) -> Result<ExitStatus> {
        match time::timeout(timeout, self.child.wait()).await {
            Ok(status) => status.context("waiting for the program"),
            Err(_) => bail!("still running after {timeout:?}; it wrote:\n{}", self.output()),
        }
    }

    /// Returns the lines so far, of both streams, in the order in which they were read.
    pub fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// Returns the first line that contains `part`, written already or within `timeout`.
    pub async fn wait_for_line(&self, part: &str, timeout: Duration) -> Result<String> {
        let mut lines = self.lines.clone();
        let find = |lines: &Vec<String>| lines.iter().find(|line| line.contains(part)).cloned();
        match time::timeout(timeout, lines.wait_for(|lines| find(lines).is_some())).await {
            Ok(Ok(lines)) => Ok(find(&lines).expect("it was there a moment ago")),
            Ok(Err(_)) => bail!("the program ended without a line with {part:?}; it wrote:\n{}", self.output()),
            Err(_) => bail!("no line with {part:?} within {timeout:?}; the program wrote:\n{}", self.output()),
        }
    }

    fn output(&self) -> String {
        self.lines.borrow().join("\n")
    }
}

async fn collect(stream: impl AsyncRead + Unpin, lines: watch::Sender<Vec<String>>) {
    let mut reader = BufReader::new(stream).lines();
    while let Ok(Some(line)) = reader.next_line().await {
        lines.send_modify(|lines| lines.push(line));
    }
}
