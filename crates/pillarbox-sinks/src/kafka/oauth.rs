//! Tokens for SASL OAUTHBEARER: the grant `client_credentials` of OAuth 2 (RFC 6749, section 4.4). librdkafka asks for a new
//! token before the old one expires.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::Request;
use rdkafka::client::OAuthToken;
use serde::Deserialize;
use url::Url;

use super::settings::{KafkaError, OauthClient};
use crate::client::{Client, ClientError, Limits, root_cause};
use crate::tls::{self, Tls};

/// The timeout of a request to the token endpoint. Delivery reports wait meanwhile.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest response of a token endpoint.
const LONGEST_RESPONSE: usize = 64 << 10;
/// The lifetime of a token whose response has none.
const LIFETIME: u64 = 300;

/// The client of a token endpoint.
pub(super) struct Tokens {
    client: Client,
    url: Url,
    oauth: OauthClient,
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    expires_in: Option<u64>,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

/// Checks the URL of a token endpoint.
pub(super) fn check_url(url: &str) -> Result<(), String> {
    match Url::parse(url) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(()),
        // The URL itself may contain a secret.
        _ => Err("is not the URL of a token endpoint; write it like \"https://login.example/oauth2/token\"".to_owned()),
    }
}

impl Tokens {
    pub(super) fn new(oauth: &OauthClient, tls: Option<&Tls>) -> Result<Self, KafkaError> {
        check_url(&oauth.token_url).map_err(KafkaError::TokenUrl)?;
        let url = Url::parse(&oauth.token_url).map_err(|error| KafkaError::TokenUrl(error.to_string()))?;
        let config = tls::client_config(tls.unwrap_or(&Tls::default()), url.scheme() == "https")?;
        let limits = Limits { timeout: TIMEOUT, connect_timeout: TIMEOUT, allow_private: true };
        let client = Client::new(config, &limits);
        Ok(Self { client, url, oauth: oauth.clone() })
    }

    /// Returns a new token. The error has no secret.
    pub(super) async fn fetch(&self) -> Result<OAuthToken, String> {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        if let Some(scope) = &self.oauth.scope {
            form.append_pair("scope", scope);
        }
        let login = format!("{}:{}", self.oauth.client_id, self.oauth.client_secret.expose());
        let request = Request::post(self.url.as_str())
            .header("authorization", format!("Basic {}", BASE64_STANDARD.encode(login)))
            .header("content-type", "application/x-www-form-urlencoded")
            .header("accept", "application/json")
            .body(Bytes::from(form.finish()))
            .map_err(|error| format!("token request cannot be made: {error}"))?;
        let failed = |error: ClientError| format!("token request failed: {}", root_cause(&error));
        let response = self.client.execute(request, LONGEST_RESPONSE).await.map_err(failed)?;
        let status = response.status();
        let body = response.into_body();
        if !status.is_success() {
            let reason = serde_json::from_slice(&body).map(|Refusal { error }| format!(" ({error})"));
            return Err(format!("token request refused with status {}{}", status.as_u16(), reason.unwrap_or_default()));
        }
        let unusable = |_| "token response is not JSON with an access_token".to_owned();
        let Answer { access_token, expires_in } = serde_json::from_slice(&body).map_err(unusable)?;
        let expiry = SystemTime::now() + Duration::from_secs(expires_in.unwrap_or(LIFETIME));
        let expiry = expiry.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        Ok(OAuthToken {
            token: access_token,
            principal_name: self.oauth.client_id.clone(),
            lifetime_ms: i64::try_from(expiry).unwrap_or(i64::MAX),
        })
    }
}
