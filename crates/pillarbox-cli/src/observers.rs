//! Who hears what the relay does, besides the log: a program that runs it as its child, a probe that looks at a file, and
//! those who keep figures. None of them can slow the relay down or stop it.

pub(crate) mod depth;
pub(crate) mod liveness;
pub(crate) mod prometheus;
pub(crate) mod report;
pub(crate) mod statsd;
pub(crate) mod systemd;
