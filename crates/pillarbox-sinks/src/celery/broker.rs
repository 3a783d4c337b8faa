//! Reads the broker's URL as Celery and kombu do, which differs a little from the clients. Pure: nothing is connected to.

use amq_protocol::uri::AMQPUri;
use url::Url;

use super::settings::{CeleryError, CelerySettings};
use crate::broker_url;
use crate::rabbitmq::address;
use crate::redis_server::RedisServer;

/// The broker that messages go to.
#[derive(Clone)]
pub(super) enum Broker {
    /// Addresses that are tried in order.
    Amqp(Vec<AMQPUri>),
    Redis(RedisServer),
}

impl Broker {
    pub(super) fn parse(settings: &CelerySettings) -> Result<Self, CeleryError> {
        let urls = broker_url::parse(settings.broker.expose())?;
        match urls.first().map(Url::scheme) {
            Some("amqp" | "pyamqp" | "amqps") => {
                Ok(Self::Amqp(urls.iter().map(address::parse).collect::<Result<_, _>>()?))
            }
            _ => Ok(Self::Redis(RedisServer::parse(&urls, settings.master_name.as_deref())?)),
        }
    }

    /// Returns the address for people: no user, no password, no query.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Amqp(addresses) => address::all_shown(addresses),
            Self::Redis(server) => server.shown(),
        }
    }
}

#[cfg(test)]
mod tests {
    use amq_protocol::uri::AMQPUserInfo;

    use super::*;

    fn parsed(broker: &str) -> Broker {
        let settings = CelerySettings { master_name: Some("main".to_owned()), ..CelerySettings::new(broker) };
        Broker::parse(&settings).unwrap()
    }

    fn rabbit(broker: &str) -> (String, String, String, String) {
        let Broker::Amqp(mut addresses) = parsed(broker) else { panic!("{broker}") };
        let uri = addresses.remove(0);
        let AMQPUserInfo { username, password } = uri.authority.userinfo;
        (format!("{}://{}:{}", uri.scheme, uri.authority.host, uri.authority.port), uri.vhost, username, password)
    }

    fn redis(broker: &str) -> (String, i64, Option<String>, Option<String>) {
        let broker = parsed(broker);
        let shown = broker.shown();
        let Broker::Redis(server) = broker else { panic!("{shown}") };
        (shown, server.database, server.user, server.password)
    }

    #[test]
    fn rabbitmq_is_read_as_kombu_reads_it() {
        let guest =
            |address: &str, vhost: &str| (address.to_owned(), vhost.to_owned(), "guest".to_owned(), "guest".to_owned());
        for broker in ["amqp://", "amqp://localhost", "amqp://localhost/", "amqp://guest:guest@localhost:5672//"] {
            assert_eq!(rabbit(broker), guest("amqp://localhost:5672", "/"), "{broker}");
        }
        assert_eq!(rabbit("pyamqp://[::1]/shop"), guest("amqp://::1:5672", "shop"));
        assert_eq!(rabbit("amqps://rabbit.example/%2fshop"), guest("amqps://rabbit.example:5671", "/shop"));
        let (_, _, user, password) = rabbit("amqp://ann%40shop:p%3b%2F:w@host//");
        assert_eq!((user.as_str(), password.as_str()), ("ann@shop", "p;/:w"));
        assert_eq!(parsed("amqp://a//;amqps://u:p@b:1//").shown(), "amqp://a:5672 or amqps://b:1");
    }

    #[test]
    fn redis_is_read_as_kombu_reads_it() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(redis("redis://"), ("redis://localhost:6379".to_owned(), 0, None, None));
        assert_eq!(redis("redis://:pw@host:1/2"), ("redis://host:1".to_owned(), 2, None, some("pw")));
        assert_eq!(redis("rediss://u:p@host?ssl_cert_reqs=CERT_REQUIRED").0, "rediss://host:6379");
        let socket = redis("redis+socket://:pw@/run/redis.sock?virtual_host=3");
        assert_eq!(socket, ("redis+socket:///run/redis.sock".to_owned(), 3, None, some("pw")));
        let sentinels = redis("sentinel://:pw@a;sentinel://b:7/1");
        let shown = "\"main\" of the sentinels a:26379, b:7".to_owned();
        assert_eq!(sentinels, (shown, 1, None, some("pw")));
    }
}
