//! What an error of SQS or SNS means: the event's fault, the target's, the credentials', or an outage. Pure.

use std::error::Error;
use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use pillarbox::SendError;

use super::Names;
use crate::client::{ClientError, causes, root_cause};

/// The wait after throttling, if the system asks for none: its limits are per second.
const THROTTLED: Duration = Duration::from_secs(1);
/// The longest wait that is obeyed.
const LONGEST: Duration = Duration::from_hours(1);

/// The reason why a call has no results.
#[derive(Debug)]
pub(crate) enum Failure {
    /// No credentials could be loaded.
    Credentials(String),
    /// No response in time.
    Timeout,
    /// The server's certificate is not trusted.
    Certificate(String),
    /// The request could not be sent, or the connection broke.
    Connection(String),
    /// The system refused the call.
    Service(Fault),
}

/// The reason why the system refused a call or one of its entries.
#[derive(Debug, Default)]
pub(crate) struct Fault {
    pub(crate) code: String,
    pub(crate) message: String,
    /// Whether the system says that the sender is at fault.
    pub(crate) is_senders: Option<bool>,
    pub(crate) status: Option<u16>,
    pub(crate) after: Option<Duration>,
}

impl<E: ProvideErrorMetadata + Error + 'static> From<SdkError<E, HttpResponse>> for Failure {
    fn from(error: SdkError<E, HttpResponse>) -> Self {
        match &error {
            SdkError::ServiceError(refused) => {
                let meta = refused.err().meta();
                let xml = |name: &str| in_xml(refused.raw(), name).unwrap_or_default();
                let code = meta.code().map_or_else(|| xml("Code"), ToOwned::to_owned);
                let message = meta.message().map_or_else(|| xml("Message"), ToOwned::to_owned);
                Self::Service(Fault { message, ..of_response(code, refused.raw()) })
            }
            SdkError::ResponseError(unreadable) => {
                Self::Service(Fault { message: root_cause(&error), ..of_response(String::new(), unreadable.raw()) })
            }
            SdkError::TimeoutError(_) => Self::Timeout,
            SdkError::DispatchFailure(failure) if failure.is_timeout() && !is_connecting(&error) => Self::Timeout,
            _ if causes(&error).any(<dyn Error>::is::<CredentialsError>) => Self::Credentials(root_cause(&error)),
            _ if causes(&error).any(is_certificate) => Self::Certificate(root_cause(&error)),
            _ => Self::Connection(root_cause(&error)),
        }
    }
}

/// Returns an element of an error in XML. Servers other than AWS answer so where the protocol is JSON, and the SDK then finds no code.
fn in_xml(response: &HttpResponse, name: &str) -> Option<String> {
    let body = std::str::from_utf8(response.body().bytes()?).ok()?;
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text.to_owned())
}

fn of_response(code: String, response: &HttpResponse) -> Fault {
    let seconds = response.headers().get("retry-after").and_then(|seconds| seconds.parse().ok());
    let after = seconds.map(|seconds| Duration::from_secs(seconds).min(LONGEST));
    Fault { code, status: Some(response.status().as_u16()), after, ..Fault::default() }
}

fn is_certificate(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(rustls::Error::InvalidCertificate(_)))
}

fn is_connecting(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|cause| cause.downcast_ref().is_some_and(ClientError::is_connect))
}

/// The faults that decide what the relay does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Throttled,
    NoTarget,
    /// With the reason, in our words: the system's own text may repeat the request's headers, and with them the session token.
    Credentials(&'static str),
    Denied,
    /// The message itself: too large, or with characters that are not allowed.
    Message,
    /// A parameter that may be wrong because of one message of the call.
    Parameter,
    Key,
    Outage,
    Other,
}

impl Fault {
    fn cause(&self) -> Cause {
        // SQS: `AWS.SimpleQueueService.NonExistentQueue`. With the JSON protocol: `com.amazonaws.sqs#QueueDoesNotExist`.
        let code = self.code.rsplit('#').next().unwrap_or_default();
        let code = code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code);
        let code = code.strip_suffix("Exception").unwrap_or(code);
        let (lower, message) = (code.to_lowercase(), self.message.to_lowercase());
        let says = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
        match code {
            _ if lower.contains("throttl") => Cause::Throttled,
            "TooManyRequests" | "RequestLimitExceeded" | "SlowDown" => Cause::Throttled,
            _ if lower.starts_with("kms") => Cause::Key,
            "NonExistentQueue" | "QueueDoesNotExist" | "QueueDeletedRecently" | "InvalidAddress" | "NotFound" => {
                Cause::NoTarget
            }
            "InvalidClientTokenId" | "UnrecognizedClient" | "InvalidAccessKeyId" => {
                Cause::Credentials("the access key id is unknown")
            }
            "SignatureDoesNotMatch" | "InvalidSignature" => {
                Cause::Credentials("the secret access key is wrong, or the clock of this machine is")
            }
            "ExpiredToken" | "RequestExpired" | "TokenRefreshRequired" => Cause::Credentials("they have expired"),
            "MissingAuthenticationToken" | "IncompleteSignature" | "NotAuthorized" => {
                Cause::Credentials("the request was not signed as it should be")
            }
            "AccessDenied" | "AuthorizationError" | "UnauthorizedOperation" | "InvalidSecurity" => Cause::Denied,
            "InvalidMessageContents" | "BatchRequestTooLong" => Cause::Message,
            _ if code.starts_with("InvalidParameter")
                && says(&["too long", "must be shorter", "invalid character"]) =>
            {
                Cause::Message
            }
            _ if code.starts_with("InvalidParameter") || code.starts_with("InvalidAttribute") => Cause::Parameter,
            "ParameterValueInvalid" | "Validation" | "ValidationError" => Cause::Parameter,
            "InternalError" | "InternalFailure" | "ServiceUnavailable" => Cause::Outage,
            "" if matches!(self.status, Some(401 | 403 | 407)) => Cause::Credentials("the response gives no reason"),
            _ if self.status == Some(429) => Cause::Throttled,
            _ if self.is_senders == Some(false) || self.status.is_some_and(|status| status >= 500) => Cause::Outage,
            _ => Cause::Other,
        }
    }

    pub(super) fn is_denied(&self) -> bool {
        self.cause() == Cause::Denied
    }

    /// Returns `SQS refused the message: … (InvalidParameterValue)`.
    fn shown(&self, what: &str) -> String {
        let message = if self.message.is_empty() { "no reason was given" } else { &self.message };
        let (code, status) = (&self.code, self.status.unwrap_or_default());
        if code.is_empty() {
            format!("{what}: {message} (status {status})")
        } else {
            format!("{what}: {message} ({code})")
        }
    }
}

impl Failure {
    /// Returns whether one message of the call may be the reason why none of them was taken.
    pub(super) fn may_be_one_message(&self) -> bool {
        matches!(self, Self::Service(fault) if matches!(fault.cause(), Cause::Message | Cause::Parameter))
    }
}

/// Returns the error of a message. `action` is the permission that the call needs, `address` is where it was sent.
pub(super) fn explain(names: &Names, action: &str, target: &str, address: &str, failure: &Failure) -> SendError {
    let fault = match failure {
        Failure::Service(fault) => return explain_fault(names, action, target, fault),
        Failure::Credentials(cause) => format!(
            "credentials for {} could not be loaded: {cause}; set access_key_id and secret_access_key, or one of the AWS \
             SDK's sources (environment, profile, role)",
            names.system
        ),
        Failure::Timeout => return SendError::timeout(format_args!("no response from {address}")),
        Failure::Certificate(cause) => format!(
            "the certificate of {address} is not trusted: {cause}; set ca_file if it is from your own certificate authority"
        ),
        Failure::Connection(cause) => format!("connection to {address} failed: {cause}"),
    };
    SendError::unavailable(fault)
}

/// As [`explain`], for a fault of a call or of one of its entries.
pub(super) fn explain_fault(names: &Names, action: &str, target: &str, fault: &Fault) -> SendError {
    let Names { system, target: noun, key, .. } = names;
    let refused = || fault.shown(&format!("{system} refused the message"));
    let error = match fault.cause() {
        Cause::Throttled => SendError::unavailable(fault.shown(&format!("{system} throttles")))
            .after(Some(fault.after.unwrap_or(THROTTLED))),
        Cause::NoTarget => {
            SendError::retry(format_args!("the {noun} {target} does not exist; create it, or correct {key}"))
        }
        Cause::Credentials(reason) => {
            let code = if fault.code.is_empty() {
                format!("status {}", fault.status.unwrap_or_default())
            } else {
                fault.code.clone()
            };
            return SendError::unavailable(format_args!("{system} refused the credentials: {reason} ({code})"));
        }
        Cause::Denied => SendError::retry(format_args!(
            "the credentials may not {action} on the {noun} {target}; allow it in the policy of the user or role, or of the {noun}"
        )),
        Cause::Key => {
            SendError::retry(fault.shown(&format!("the encryption key of the {noun} {target} cannot be used")))
        }
        Cause::Message => SendError::reject(refused()),
        Cause::Parameter | Cause::Other => SendError::retry(refused()),
        Cause::Outage => SendError::unavailable(fault.shown(&format!("{system} failed"))).after(fault.after),
    };
    match fault.status {
        Some(status) => error.answered(status, fault.message.as_str()),
        None => error,
    }
}

/// Returns the error of a message whose call has no response in time.
pub(super) fn timed_out(address: &str, timeout: Duration) -> SendError {
    SendError::timeout(format_args!("no response from {address} within {timeout:?}"))
}

#[cfg(test)]
mod tests {
    use aws_smithy_runtime_api::client::result::ConnectorError;
    use aws_smithy_types::error::ErrorMetadata;
    use pillarbox::SendErrorKind::{self, Reject, Retry, Unavailable};

    use super::*;

    const NAMES: Names = Names {
        system: "SQS",
        target: "queue",
        key: "queue_url",
        send: "sqs:SendMessage",
        look_up: "",
        message_bytes: 0,
        call_bytes: 0,
    };

    fn explained(code: &str, message: &str, status: u16) -> SendError {
        let fault =
            Fault { code: code.to_owned(), message: message.to_owned(), status: Some(status), ..Fault::default() };
        explain(&NAMES, NAMES.send, "https://sqs/1/orders", "SQS", &Failure::Service(fault))
    }

    #[test]
    fn each_code_has_its_fault() {
        let cases: [(&str, &str, u16, SendErrorKind, &str); 16] = [
            (
                "AWS.SimpleQueueService.NonExistentQueue",
                "",
                400,
                Retry,
                "the queue https://sqs/1/orders does not exist",
            ),
            ("com.amazonaws.sqs#QueueDoesNotExist", "", 400, Retry, "does not exist"),
            ("NotFoundException", "", 404, Retry, "does not exist"),
            ("InvalidClientTokenId", "", 403, Unavailable, "the access key id is unknown (InvalidClientTokenId)"),
            (
                "SignatureDoesNotMatch",
                "x-amz-security-token:hunter2",
                403,
                Unavailable,
                "the secret access key is wrong",
            ),
            ("ExpiredTokenException", "", 403, Unavailable, "expired"),
            ("AccessDeniedException", "", 403, Retry, "may not sqs:SendMessage on the queue https://sqs/1/orders"),
            ("AuthorizationError", "", 403, Retry, "may not"),
            ("KMS.AccessDeniedException", "", 400, Retry, "the encryption key"),
            ("InvalidMessageContents", "bad", 400, Reject, "SQS refused the message: bad (InvalidMessageContents)"),
            ("InvalidParameter", "Message too long", 400, Reject, "too long"),
            ("InvalidParameterValue", "must be shorter than 1024 bytes", 400, Reject, "shorter"),
            ("InvalidParameter", "Invalid parameter: TopicArn", 400, Retry, "TopicArn"),
            ("", "", 503, Unavailable, "SQS failed: no reason was given (status 503)"),
            ("UnsupportedOperation", "no", 400, Retry, "no (UnsupportedOperation)"),
            ("", "<html>", 403, Unavailable, "the response gives no reason (status 403)"),
        ];
        for (code, message, status, kind, part) in cases {
            let error = explained(code, message, status);
            assert_eq!(error.kind, kind, "{code}: {error}");
            assert!(error.message.contains(part), "{code}: {error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{code}: {error:?}");
        }
    }

    #[test]
    fn throttling_is_an_outage_with_a_wait() {
        for code in ["RequestThrottled", "ThrottlingException", "Throttling", "KmsThrottled", "TooManyRequests"] {
            let error = explained(code, "slow down", 400);
            assert_eq!((error.kind, error.after), (Unavailable, Some(THROTTLED)), "{code}");
        }
        assert_eq!(explained("", "", 429).after, Some(THROTTLED));
    }

    // Against a server, a test would ask the metadata service of the machine that it runs on.
    #[test]
    fn missing_credentials_are_an_outage_that_says_so() {
        let none = CredentialsError::not_loaded("no providers in chain provided credentials");
        let error = ConnectorError::other(none.into(), None);
        let error: SdkError<ErrorMetadata, HttpResponse> = SdkError::dispatch_failure(error);
        let error = explain(&NAMES, "", "q", "SQS", &Failure::from(error));
        assert_eq!(error.kind, Unavailable);
        let begin =
            "credentials for SQS could not be loaded: no providers in chain provided credentials; set access_key_id";
        assert!(error.message.starts_with(begin), "{error}");
    }

    #[test]
    fn an_entry_is_the_systems_fault_if_it_says_so() {
        let fault = |is_senders| Fault { code: "Odd".to_owned(), is_senders: Some(is_senders), ..Fault::default() };
        assert_eq!(explain_fault(&NAMES, "", "q", &fault(false)).kind, Unavailable);
        assert_eq!(explain_fault(&NAMES, "", "q", &fault(true)).kind, Retry);
    }
}
