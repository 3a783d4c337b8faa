//! The keys of the kinds "sqs" and "sns". They differ only in the name of their target.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use pillarbox::Sink;

use super::settings::check_endpoint;
use super::{AwsCredentials, AwsError, AwsSettings, Service};
use crate::config::shown::{Key, hidden, text};
use crate::config::{ConfigError, SecretRef, Section};
use crate::content::Content;
use crate::registry::{Build, Target};
use crate::{Template, redact};

/// The number of sends at once. Each is a whole batch with many calls, so two are enough.
pub(crate) const CONCURRENCY: usize = 2;

/// A queue or topic, as it was configured. The secrets are looked up when the sink is built.
pub(crate) struct AwsTarget<S> {
    target: Option<Template>,
    region: Option<String>,
    endpoint: Option<String>,
    profile: Option<String>,
    access_key_id: Option<SecretRef>,
    secret_access_key: Option<SecretRef>,
    session_token: Option<SecretRef>,
    content: Content,
    build: fn(AwsSettings) -> Result<Arc<dyn Sink>, AwsError>,
    service: PhantomData<fn() -> S>,
}

/// Takes the keys. `build` makes the sink.
pub(crate) fn read<S: Service>(
    section: &mut Section<'_>,
    advice: &str,
    build: fn(AwsSettings) -> Result<Arc<dyn Sink>, AwsError>,
) -> Arc<dyn Target> {
    let key = S::NAMES.key;
    let target: Option<Template> = section.require(key, advice);
    if let Some(given) = target.as_ref().and_then(Template::constant)
        && let Err(reason) = S::check(given)
    {
        section.problem(key, format_args!("is {given:?}, which {reason}; {advice}"));
    }
    let target = AwsTarget::<S> {
        target,
        region: section.take_checked("region", check_region),
        endpoint: section.take_checked("endpoint", |endpoint: &String| check_endpoint(endpoint)),
        profile: section.take("profile"),
        access_key_id: section.take("access_key_id"),
        secret_access_key: section.take("secret_access_key"),
        session_token: section.take("session_token"),
        content: Content::read(section),
        build,
        service: PhantomData,
    };
    match (&target.access_key_id, &target.secret_access_key) {
        (Some(_), None) => section.problem("secret_access_key", "is missing; access_key_id needs its secret"),
        (None, Some(_)) => section.problem("access_key_id", "is missing; secret_access_key belongs to it"),
        (None, None) if target.session_token.is_some() => {
            section.problem("access_key_id", "is missing; session_token belongs to temporary credentials");
        }
        (Some(_), Some(_)) if target.profile.is_some() => {
            section.problem("profile", "has no effect beside access_key_id; remove one of them");
        }
        _ => {}
    }
    Arc::new(target)
}

fn check_region(region: &String) -> Result<(), String> {
    let is_region = !region.is_empty() && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let refusal = || format!("is {region:?}, which is not the name of a region; write it like \"eu-west-1\"");
    is_region.then_some(()).ok_or_else(refusal)
}

impl<S: Service> Target for AwsTarget<S> {
    fn shown(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        keys.extend(self.target.as_ref().map(|target| (S::NAMES.key, text(target.as_str()))));
        keys.extend(self.region.as_ref().map(|region| ("region", text(region))));
        keys.extend(self.endpoint.as_ref().map(|url| ("endpoint", text(redact::without_login(url)))));
        keys.extend(self.profile.as_ref().map(|profile| ("profile", text(profile))));
        let secrets = [
            ("access_key_id", &self.access_key_id),
            ("secret_access_key", &self.secret_access_key),
            ("session_token", &self.session_token),
        ];
        keys.extend(
            secrets.into_iter().filter_map(|(key, secret)| secret.as_ref().map(|secret| (key, hidden(secret)))),
        );
        keys.extend(self.content.shown());
        keys
    }

    fn address(&self) -> Option<String> {
        let target = || self.target.as_ref().map(Template::as_str);
        let shown = |target: &str| if target.contains("://") { redact::address(target) } else { target.to_owned() };
        self.endpoint.as_deref().map(redact::address).or_else(|| target().map(shown))
    }

    fn sink(&self, build: &Build<'_>) -> Result<Arc<dyn Sink>, ConfigError> {
        let access_key_id = build.optional_secret("access_key_id", self.access_key_id.as_ref())?;
        let secret_access_key = build.optional_secret("secret_access_key", self.secret_access_key.as_ref())?;
        let session_token = build.optional_secret("session_token", self.session_token.as_ref())?;
        let credentials = access_key_id.zip(secret_access_key);
        let settings = AwsSettings {
            target: self.target.clone().unwrap_or_else(|| Template::fixed("")),
            region: self.region.clone(),
            endpoint: self.endpoint.clone(),
            profile: self.profile.clone(),
            credentials: credentials.map(|(access_key_id, secret_access_key)| AwsCredentials {
                access_key_id,
                secret_access_key,
                session_token,
            }),
            content: self.content.clone(),
            timeout: build.timeout(),
            tls: build.tls()?,
        };
        (self.build)(settings).map_err(|error| build.problem(error))
    }
}

impl<S> fmt::Debug for AwsTarget<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsTarget")
            .field("target", &self.target)
            .field("region", &self.region)
            .field("endpoint", &self.endpoint)
            .field("profile", &self.profile)
            .field("access_key_id", &self.access_key_id)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}
