//! No error and no `Debug` shows a password.

use pillarbox::SendErrorKind;
use pillarbox_sinks::Tls;
use pillarbox_sinks::celery::{CelerySettings, CelerySink};
use pillarbox_testkit::rabbitmq;

use crate::fixture::{send_one, settings, sink, to_queue};

#[tokio::test]
async fn a_wrong_password_is_not_shown() {
    let rabbit = rabbitmq::shared_url().replace("guest:guest", "guest:hunter2");
    let redis = pillarbox_testkit::redis::shared_url().replace("redis://", "redis://ann:hunter2@");
    for broker in [rabbit, redis] {
        let sink = sink(settings(&broker));
        let error = send_one(&sink, to_queue("x")).await.unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
        for shown in [format!("{error}"), format!("{error:?}"), format!("{sink:?}"), format!("{:?}", settings(&broker))]
        {
            assert!(!shown.contains("hunter2"), "{shown}");
            assert!(!shown.contains("ann:"), "{shown}");
        }
    }
}

#[test]
fn settings_that_cannot_work_say_what_to_do_and_show_no_password() {
    let refusal = |broker: &str| {
        let error = CelerySink::new(CelerySettings::new(broker)).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
        error
    };
    assert!(refusal("").contains("it is empty"));
    assert!(refusal("localhost").contains("has no scheme"));
    assert!(refusal("kafka://ann:hunter2@host").contains("the scheme \"kafka\"; use amqp"));
    assert!(refusal("amqp://ann:12/hunter2@host//").contains("percent-encode"));
    assert!(refusal("redis://ann:hunter2@host/one").contains("the Redis database \"one\""));
    assert!(refusal("redis://a;redis://b").contains("several addresses"));
    assert!(refusal("sentinel://ann:hunter2@host").contains("master_name is missing"));
    assert!(refusal("rediss://ann:hunter2@host?ssl_cert_reqs=none").contains("always verified"));
    assert!(
        refusal("amqps://ann:hunter2@host?ssl_ca_certs=/x.pem").contains("set ca_file to the certificate authority")
    );
    let shown = format!("{:?}", CelerySettings::new("amqp://ann:hunter2@a:1//;amqps://ann:hunter2@b"));
    assert!(shown.contains("amqp://a:1;amqps://b") && !shown.contains("hunter2"), "{shown}");
    let mut settings = CelerySettings::new("amqps://host");
    settings.tls = Tls::trusting("not PEM");
    assert!(CelerySink::new(settings).unwrap_err().to_string().contains("ca_file has no usable certificate"));
}
