//! Explains why there was no response: the kind of failure, and its root cause as a message for people.

use std::error::Error;
use std::io;
use std::time::Duration;

use pillarbox::SendError;
use url::Url;

use super::settings::HttpSettings;
use crate::client::{ClientError, ConnectTimedOut, causes, root_cause};

/// Too many open files in the system, and in this process. The codes are the same on Linux, macOS and the BSDs.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// Explains the failures of one receiver.
pub(super) struct Failures {
    /// Scheme, host and port. A URL's path and query are often secret.
    receiver: String,
    timeout: Duration,
    connect_timeout: Duration,
}

impl Failures {
    pub(super) fn new(url: &Url, settings: &HttpSettings) -> Self {
        Self {
            receiver: url.origin().ascii_serialization(),
            timeout: settings.timeout,
            connect_timeout: settings.connect_timeout(),
        }
    }

    /// Returns scheme, host and port.
    pub(super) fn receiver(&self) -> &str {
        &self.receiver
    }

    pub(super) fn explain(&self, error: &ClientError) -> SendError {
        let Self { receiver, timeout, connect_timeout } = self;
        let cause = root_cause(error);
        if is_out_of_files(error) {
            SendError::unavailable(format_args!(
                "this process has no file descriptors left, so no request was sent to {receiver}; raise LimitNOFILE \
                 of the service or `ulimit -n`: {cause}"
            ))
        } else if is_connect_timeout(error) {
            SendError::unavailable(format_args!("no connection to {receiver} within {connect_timeout:?}"))
        } else if matches!(error, ClientError::TimedOut) {
            SendError::timeout(format_args!("no response from {receiver} within {timeout:?}"))
        } else if is_certificate(error) {
            SendError::unavailable(format_args!(
                "the certificate of {receiver} is not trusted: {cause}; set ca_file if it is from your own \
                 certificate authority"
            ))
        } else if error.is_connect() {
            SendError::unavailable(format_args!("cannot connect to {receiver}: {cause}"))
        } else if is_nonsense(error) {
            SendError::retry(format_args!("the response of {receiver} is not HTTP: {cause}"))
        } else {
            SendError::unavailable(format_args!("connection to {receiver} lost before the response: {cause}"))
        }
    }
}

/// Returns whether this machine is at fault, not the receiver.
fn is_out_of_files(error: &ClientError) -> bool {
    let code = |cause: &(dyn Error + 'static)| cause.downcast_ref::<io::Error>()?.raw_os_error();
    causes(error).filter_map(code).any(|code| code == EMFILE || code == ENFILE)
}

fn is_connect_timeout(error: &ClientError) -> bool {
    causes(error).any(|cause| cause.downcast_ref::<ConnectTimedOut>().is_some())
}

fn is_certificate(error: &ClientError) -> bool {
    causes(error).any(|cause| matches!(cause.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))))
}

fn is_nonsense(error: &ClientError) -> bool {
    causes(error).any(|cause| cause.downcast_ref().is_some_and(hyper::Error::is_parse))
}
