//! Observers of the relay, besides the log: a parent process, a probe of a file, systemd, and metrics. None of them can
//! slow the relay down or stop it.

pub(crate) mod depth;
pub(crate) mod liveness;
mod log_series;
pub(crate) mod prometheus;
pub(crate) mod report;
pub(crate) mod statsd;
#[cfg(target_os = "linux")]
pub(crate) mod systemd;
