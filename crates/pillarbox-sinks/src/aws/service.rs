//! What each of the two systems implements, and its names and limits.

use aws_config::SdkConfig;

use super::{Entry, Failure, Fault};

/// The names of a system's parts, for errors, and its limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    /// `SQS`
    pub(crate) system: &'static str,
    /// `queue`
    pub(crate) target: &'static str,
    /// The key of the configuration that names the target.
    pub(crate) key: &'static str,
    /// The permission that sending needs.
    pub(crate) send: &'static str,
    /// The permission that looking up the target needs.
    pub(crate) look_up: &'static str,
    /// The most bytes of a message, with names, types and values of its attributes.
    pub(crate) message_bytes: usize,
    /// The most bytes of all messages of a call. A larger message gets a call of its own.
    pub(crate) call_bytes: usize,
}

/// The results of a call: the number of the entry, and its result.
pub(crate) type Answers = Vec<(usize, Result<(), Fault>)>;

/// SQS or SNS.
pub(crate) trait Service: Sized + Send + Sync + 'static {
    const NAMES: Names;

    fn new(config: &SdkConfig, endpoint: Option<&str>) -> Self;

    /// Checks a queue's URL or a topic's ARN. The error continues a sentence: `which has …`.
    fn check(target: &str) -> Result<(), String>;

    /// Returns the region that a target names.
    fn region(target: &str) -> Option<&str>;

    /// Sends at most ten entries in one call.
    fn send(&self, target: &str, entries: &[&Entry<'_>]) -> impl Future<Output = Result<Answers, Failure>> + Send;

    /// Reads the attributes of a target.
    fn look_up(&self, target: &str) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Lists targets. The list itself does not matter.
    fn list(&self) -> impl Future<Output = Result<(), Failure>> + Send;
}
