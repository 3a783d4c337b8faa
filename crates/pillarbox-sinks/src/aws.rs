//! The part that SQS and SNS share: a batch becomes calls of at most ten messages, and each message has its own result.
//!
//! The path of a message: `entry` makes a message with its attributes, `rounds` packs messages into calls and keeps the order of
//! runs, `failure` decides what an error means. `client` carries the SDK's requests over this crate's TLS, `service` is what each
//! of the two systems implements, `settings` and `keys` are the configuration.
//!
//! The credentials come from the settings, or from the standard chain of the AWS SDK: environment, profile, web identity,
//! container, instance. This is the one part of the crate that reads the environment, because the chain does.

mod client;
mod entry;
mod failure;
pub(crate) mod keys;
mod rounds;
pub(crate) mod service;
mod settings;

use std::time::{Duration, Instant};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_smithy_types::retry::RetryConfig;
use pillarbox::{Message, SendError};
use tokio::sync::OnceCell;

use self::client::Connections;
pub(crate) use self::entry::Entry;
pub(crate) use self::failure::{Failure, Fault};
use self::failure::{explain, timed_out};
pub(crate) use self::service::{Names, Service};
pub(crate) use self::settings::check_name;
pub use self::settings::{AwsCredentials, AwsError, AwsSettings};

/// The most messages of one send: ten calls of ten, which are in flight together.
pub(crate) const BATCH: usize = 100;
/// The time for which FIFO queues and topics remember deduplication ids.
const WINDOW: Duration = Duration::from_mins(5);
/// The ending of the names of FIFO queues and topics.
const FIFO: &str = ".fifo";

/// A sink of SQS or SNS. The credentials and the region are looked up at the first send.
pub(crate) struct AwsSink<S> {
    settings: AwsSettings,
    connections: Connections,
    service: OnceCell<S>,
}

impl<S: Service> AwsSink<S> {
    pub(crate) fn new(settings: AwsSettings) -> Result<Self, AwsError> {
        settings.check::<S>()?;
        let connections = Connections::new(&settings)?;
        Ok(Self { settings, connections, service: OnceCell::new() })
    }

    pub(crate) async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        let deadline = self.deadline();
        match self.service(deadline).await {
            Ok(service) => rounds::send(service, &self.settings, batch, deadline).await,
            Err(error) => vec![Err(error); batch.len()],
        }
    }

    /// Looks up a constant target. For a template, any response proves that the system and the credentials are right.
    pub(crate) async fn reach(&self) -> Result<(), SendError> {
        let deadline = self.deadline();
        let service = self.service(deadline).await?;
        let (names, target) = (S::NAMES, self.settings.target.constant());
        let asked = tokio::time::timeout_at(deadline.into(), async {
            match target {
                Some(target) => service.look_up(target).await,
                None => service.list().await,
            }
        });
        match (asked.await, target) {
            (Ok(Ok(())), _) => Ok(()),
            (Ok(Err(Failure::Service(fault))), None) if fault.is_denied() => Ok(()),
            (Ok(Err(failure)), _) => {
                Err(explain(&names, names.look_up, target.unwrap_or(names.target), &self.address(), &failure))
            }
            (Err(_), _) => Err(timed_out(&self.address(), self.settings.timeout)),
        }
    }

    /// Returns whether every event of an aggregate goes to the same FIFO queue or topic, in the same group.
    pub(crate) fn keeps_order(&self) -> bool {
        let target = &self.settings.target;
        target.as_str().ends_with(FIFO) && target.is_fixed_per_aggregate()
    }

    /// Returns a note if a message may be sent again after the window in which a FIFO queue or topic drops its duplicate.
    pub(crate) fn advise(&self, lease: Duration) -> Vec<String> {
        let longest = lease.max(self.settings.timeout);
        if !self.settings.target.as_str().ends_with(FIFO) || longest < WINDOW {
            return Vec::new();
        }
        let (system, target) = (S::NAMES.system, S::NAMES.target);
        let longest = humantime::format_duration(longest);
        vec![format!(
            "{system} drops duplicates of a FIFO {target} within 5 minutes, but relay.lease or the timeout is {longest}: after a \
             crash of the relay, an event may arrive twice; lower both below 5m"
        )]
    }

    fn address(&self) -> String {
        self.settings.address::<S>()
    }

    /// Returns a time a little before the relay drops the send: the relay counts a dropped batch as one failure, and with an
    /// earlier deadline each message has its own result.
    fn deadline(&self) -> Instant {
        let timeout = self.settings.timeout;
        Instant::now() + timeout - (timeout / 10).min(Duration::from_millis(500))
    }

    async fn service(&self, deadline: Instant) -> Result<&S, SendError> {
        let started = self.service.get_or_try_init(|| async {
            let config = self.config().await;
            if config.region().is_none() {
                return Err(SendError::unavailable(
                    "the AWS region is missing; set region, or AWS_REGION in the environment",
                ));
            }
            Ok(S::new(&config, self.settings.endpoint.as_deref()))
        });
        let late = |_| SendError::unavailable("the AWS configuration could not be loaded in time");
        tokio::time::timeout_at(deadline.into(), started).await.map_err(late)?
    }

    async fn config(&self) -> SdkConfig {
        let settings = &self.settings;
        // The relay retries. A retry of the SDK would hide throttling from the breaker.
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .http_client(self.connections.clone())
            .retry_config(RetryConfig::disabled());
        if let Some(region) = settings.region::<S>() {
            loader = loader.region(Region::new(region.to_owned()));
        }
        if let Some(profile) = &settings.profile {
            loader = loader.profile_name(profile);
        }
        if let Some(AwsCredentials { access_key_id, secret_access_key, session_token }) = &settings.credentials {
            let token = session_token.as_ref().map(|token| token.expose().to_owned());
            let (id, secret) = (access_key_id.expose(), secret_access_key.expose());
            loader = loader.credentials_provider(Credentials::new(id, secret, token, None, "configuration"));
        }
        loader.load().await
    }
}
