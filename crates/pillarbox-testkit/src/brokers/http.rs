//! An HTTP receiver as a broker: each request is a message.

use async_trait::async_trait;

use super::{Broker, Received, WRONG_PASSWORD};
use crate::receiver::{Answer, Receiver};

const PATH: &str = "/events";

/// A receiver of its own. It ends when the value is dropped.
#[derive(Debug)]
pub struct HttpBroker(Receiver);

impl HttpBroker {
    /// Starts a receiver that knows one path.
    pub async fn start() -> Self {
        let receiver = Receiver::start().await;
        receiver.answer_with(answer);
        Self(receiver)
    }

    fn keys_to(&self, path: &str) -> String {
        format!("kind = \"http\"\nurl = \"{}\"\nallow_private = true\nconcurrency = 8\n", self.0.url(path))
    }
}

fn answer(received: &crate::receiver::Received) -> Answer {
    match received.path.as_str() {
        PATH => Answer::ok(),
        _ => Answer::status(404),
    }
}

#[async_trait]
impl Broker for HttpBroker {
    fn keys(&self) -> String {
        self.keys_to(PATH)
    }

    fn keys_with_wrong_password(&self) -> String {
        format!("{}bearer = \"{WRONG_PASSWORD}\"\n", self.keys())
    }

    fn keys_to_unknown_target(&self) -> (String, String) {
        (self.keys_to("/nowhere"), "404".to_owned())
    }

    fn oversize(&self) -> Option<usize> {
        None
    }

    async fn received(&self) -> Vec<Received> {
        let arrived = self.0.received().into_iter().filter(|request| request.path == PATH && !request.body.is_empty());
        let message = |request: crate::receiver::Received| {
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            let mut headers: std::collections::BTreeMap<String, String> =
                request.headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect();
            // The event's id has the name that Standard Webhooks gives it.
            headers.extend(request.id.map(|id| ("pillarbox-event-id".to_owned(), id.to_string())));
            Received { body: request.body.to_vec(), headers }
        };
        arrived.map(message).collect()
    }

    async fn kill(&mut self) {
        self.0.stop().await;
    }

    async fn start_again(&mut self) {
        self.0.restart().await;
    }

    fn freeze(&self) {
        self.0.answer_with(|_| Answer::Hang);
    }

    fn thaw(&self) {
        self.0.answer_with(answer);
    }
}
