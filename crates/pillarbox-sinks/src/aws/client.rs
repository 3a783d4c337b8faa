//! Carries the requests of the AWS SDK over the same HTTP client and TLS as the kind "http". The SDK's own client takes no client
//! certificate.

use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use hyper::Request;

use super::settings::{AwsError, AwsSettings};
use crate::client::{Client, ClientError, Limits};
use crate::tls;

/// The timeout for connecting; never more than half of a send.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest response of AWS that is read.
const LONGEST_RESPONSE: usize = 4 << 20;

/// A connection pool.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    client: Client,
}

/// The pool, with the timeout that one of the SDK's clients asks for.
#[derive(Debug)]
struct Connector {
    client: Client,
    timeout: Option<Duration>,
}

impl Connections {
    pub(super) fn new(settings: &AwsSettings) -> Result<Self, AwsError> {
        let config = tls::client_config(&settings.tls, settings.uses_tls())?;
        let connect_timeout = CONNECT.min(settings.timeout / 2);
        let limits = Limits { timeout: settings.timeout, connect_timeout, allow_private: true };
        Ok(Self { client: Client::new(config, &limits) })
    }
}

impl HttpClient for Connections {
    fn http_connector(&self, settings: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        // Sends have a deadline of their own. The clients of credentials set a read timeout.
        let connecting = settings.connect_timeout().unwrap_or_default();
        let timeout = settings.read_timeout().map(|reading| connecting + reading);
        SharedHttpConnector::new(Connector { client: self.client.clone(), timeout })
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (client, timeout) = (self.client.clone(), self.timeout);
        HttpConnectorFuture::new(async move { call(&client, timeout, &request).await })
    }
}

async fn call(
    client: &Client,
    timeout: Option<Duration>,
    request: &HttpRequest,
) -> Result<HttpResponse, ConnectorError> {
    let Some(body) = request.body().bytes() else {
        return Err(ConnectorError::user("requests with a stream as their body are not supported".into()));
    };
    let mut outgoing = Request::builder().method(request.method()).uri(request.uri());
    for (name, value) in request.headers() {
        outgoing = outgoing.header(name, value);
    }
    let outgoing = outgoing.body(Bytes::copy_from_slice(body)).map_err(|error| ConnectorError::user(error.into()))?;
    let calling = client.execute(outgoing, LONGEST_RESPONSE);
    let answer = match timeout {
        None => calling.await,
        Some(timeout) => tokio::time::timeout(timeout, calling).await.unwrap_or(Err(ClientError::TimedOut)),
    };
    let (head, body) = answer.map_err(failed)?.into_parts();
    let status = head.status.as_u16().try_into().map_err(|error| ConnectorError::other(Box::new(error), None))?;
    let mut response = HttpResponse::new(status, SdkBody::from(body));
    for (name, value) in &head.headers {
        // A header that is not text is none of those that the SDK reads.
        if let Ok(value) = value.to_str() {
            response.headers_mut().append(name.as_str().to_owned(), value.to_owned());
        }
    }
    Ok(response)
}

fn failed(error: ClientError) -> ConnectorError {
    match error {
        ClientError::TimedOut => ConnectorError::timeout(error.into()),
        _ => ConnectorError::io(error.into()),
    }
}
