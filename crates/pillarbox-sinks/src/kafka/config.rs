//! The settings as librdkafka's properties.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use super::settings::{Compression, KafkaError, KafkaSettings, Sasl, ScramHash};
use crate::tls::{self, Tls, TlsError};

/// Returns the properties that all producers of a sink share.
pub(super) fn properties(settings: &KafkaSettings) -> Result<ClientConfig, KafkaError> {
    let mut config = ClientConfig::new();
    let request_timeout = (settings.timeout / 2).clamp(Duration::from_secs(1), Duration::from_secs(60)).as_millis();
    config
        .set("client.id", "pillarbox")
        .set("bootstrap.servers", settings.brokers.join(","))
        .set("acks", "all")
        .set("enable.idempotence", "true")
        // A message never expires by itself: a message behind it in a run could be stored without it. The sink has the
        // deadline.
        .set("message.timeout.ms", "0")
        // The hash function of Kafka's own clients: their messages with the same key have the same partition.
        .set("partitioner", "murmur2_random")
        .set("message.max.bytes", settings.max_message_size.to_string())
        .set("compression.codec", compression(settings.compression))
        // The sink enqueues a whole batch at once, so there is little to wait for.
        .set("linger.ms", "1")
        // A request without a response is sent again within the same send, over another connection. The broker recognises
        // a message that it has stored.
        .set("socket.timeout.ms", request_timeout.to_string())
        .set("request.timeout.ms", request_timeout.to_string())
        .set("allow.auto.create.topics", "false")
        // A missing topic is reported after this time, and not after 30 s.
        .set("topic.metadata.propagation.max.ms", "1000")
        .set("reconnect.backoff.max.ms", "1000")
        .set("socket.nagle.disable", "true")
        .set("socket.connection.setup.timeout.ms", "5000")
        .set_log_level(RDKafkaLogLevel::Info);
    let protocol = match (&settings.tls, &settings.sasl) {
        (None, None) => "PLAINTEXT",
        (None, Some(_)) => "SASL_PLAINTEXT",
        (Some(_), None) => "SSL",
        (Some(_), Some(_)) => "SASL_SSL",
    };
    config.set("security.protocol", protocol);
    if let Some(tls) = &settings.tls {
        set_tls(&mut config, tls)?;
    }
    if let Some(sasl) = &settings.sasl {
        set_sasl(&mut config, sasl);
    }
    Ok(config)
}

fn compression(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "none",
        Compression::Gzip => "gzip",
        Compression::Snappy => "snappy",
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
    }
}

fn set_tls(config: &mut ClientConfig, tls: &Tls) -> Result<(), TlsError> {
    // Checks certificates and key with better errors than OpenSSL's.
    tls::client_config(tls, false)?;
    let text = |pem: &[u8]| String::from_utf8_lossy(pem).into_owned();
    if let Some(pem) = tls::authorities_pem(tls)? {
        config.set("ssl.ca.pem", text(&pem));
    }
    if let Some(identity) = &tls.identity {
        config.set("ssl.certificate.pem", text(&identity.certificate));
        config.set("ssl.key.pem", text(&identity.key));
    }
    Ok(())
}

fn set_sasl(config: &mut ClientConfig, sasl: &Sasl) {
    let (mechanism, login) = match sasl {
        Sasl::Plain { username, password } => ("PLAIN", Some((username, password))),
        Sasl::Scram { hash: ScramHash::Sha256, username, password } => ("SCRAM-SHA-256", Some((username, password))),
        Sasl::Scram { hash: ScramHash::Sha512, username, password } => ("SCRAM-SHA-512", Some((username, password))),
        Sasl::OauthBearer(_) => ("OAUTHBEARER", None),
    };
    config.set("sasl.mechanism", mechanism);
    if let Some((username, password)) = login {
        config.set("sasl.username", username).set("sasl.password", password.expose());
    }
}
