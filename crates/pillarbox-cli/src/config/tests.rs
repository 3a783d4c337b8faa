//! Tests of the configuration as a whole.

use std::time::Duration;

use super::*;
use pillarbox_admin::Mask;

mod admin;
mod celery;
mod digest;
mod fuzz;
mod outbox_table;

fn parse_with(text: &str, environment: &Environment) -> Result<Settings, String> {
    Settings::parse(text, Some(Path::new("pillarbox.toml")), environment).map_err(|error| error.to_string())
}

fn parse(text: &str) -> Result<Settings, String> {
    parse_with(text, &Environment::default())
}

fn refusal(text: &str) -> String {
    parse(text).unwrap_err()
}

/// Returns the default file with its examples uncommented, without those of kinds that this program was built without.
fn default_file_with_examples() -> String {
    let left_out = [
        ("kafka", cfg!(feature = "kafka")),
        ("queue", cfg!(feature = "sqs")),
        ("announcements", cfg!(feature = "sns")),
    ];
    let mut file = DEFAULT_FILE.to_owned();
    for (name, _) in left_out.iter().filter(|(_, is_built)| !is_built) {
        let (before, from_it) = file.split_once(&format!("#[destinations.{name}]\n")).unwrap();
        file = format!("{before}{}", from_it.split_once("\n\n").unwrap().1);
    }
    let real =
        |line: &str| line.strip_prefix('#').filter(|rest| rest.starts_with(|c: char| c != ' ')).map(str::to_owned);
    file.lines().map(|line| real(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

#[test]
fn the_default_file_says_what_is_built_in() {
    let (written, built_in) = (parse(DEFAULT_FILE).unwrap(), parse("").unwrap());
    assert_eq!(written.shown_json(), built_in.shown_json());
    assert_eq!(written.database, built_in.database);
    assert!(written.destinations.is_empty() && written.routes.is_empty());
    assert_eq!(written.admin, built_in.admin);
}

#[test]
fn the_default_file_writes_every_key_of_database_source_relay_and_metrics() {
    let mut written: toml::Table = DEFAULT_FILE.parse().unwrap();
    let shown = parse("").unwrap().shown_json();
    for section in ["database", "source", "relay", "metrics", "tracing", "log"] {
        let written = serde_json::to_value(written.remove(section).unwrap()).unwrap();
        let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&written), keys(&shown[section]));
        for nested in ["retry", "breaker", "cleanup", "columns"] {
            if let (Some(written), Some(shown)) = (written.get(nested), shown[section].get(nested)) {
                assert_eq!(keys(written), keys(shown));
            }
        }
    }
}

#[test]
fn sizes_have_units() {
    let size = |text: &str| parse(&format!("[relay]\nbytes_in_flight = {text}"));
    for (text, bytes, shown) in
        [("\"512KiB\"", 512 << 10, "512KiB"), ("\"3 MiB\"", 3 << 20, "3MiB"), ("\"2GiB\"", 2 << 30, "2GiB")]
    {
        let settings = size(text).unwrap();
        assert_eq!(settings.relay.bytes_in_flight, bytes);
        assert_eq!(settings.shown_json()["relay"]["bytes_in_flight"], shown);
    }
    for text in ["64", "\"64\"", "\"64MB\"", "\"-1MiB\"", "\"1.5GiB\"", "\"MiB\""] {
        let problem = size(text).map(|_| ()).unwrap_err();
        assert!(problem.contains("relay.bytes_in_flight is") && problem.contains("\"64MiB\""), "{problem}");
    }
    assert!(refusal("[relay]\nbytes_in_flight = \"0KiB\"").contains("is 0 bytes, but must be more"));
}

#[test]
fn the_breaker_is_told() {
    let written = "[relay.breaker]\nthreshold = 5\nbase = \"2s\"\ncap = \"1m\"\npatience = 3";
    let breaker = parse(written).unwrap().relay.breaker;
    assert_eq!(
        (breaker.threshold, breaker.base, breaker.cap, breaker.patience),
        (5, Duration::from_secs(2), Duration::from_secs(60), 3)
    );
    let problem = refusal("[relay.breaker]\nthreshold = 0\nbase = \"20s\"");
    assert!(problem.contains("relay.breaker.threshold is 0, but must be at least 1"), "{problem}");
    assert!(problem.contains("relay.breaker.cap is 10s, which is less than the base of 20s"), "{problem}");
}

/// Returns the keys of a destination as they are shown, without keys that have no default.
fn defaults(settings: &Settings, name: &str, without: &[&str]) -> serde_json::Value {
    let mut shown = settings.shown_json()["destinations"][name].clone();
    shown.as_object_mut().unwrap().retain(|key, _| !without.contains(&key.as_str()));
    shown
}

#[test]
fn the_default_files_examples_show_the_defaults_of_a_destination() {
    let examples = parse(&default_file_with_examples()).unwrap();
    let least = parse(
        "[destinations.runner]\nkind = \"http\"\nurl = \"https://runner.example/events\"\n\
         [destinations.celery]\nkind = \"celery\"\nbroker = \"env:PILLARBOX_BROKER_URL\"\n\
         [destinations.streams]\nkind = \"redis\"\nurl = \"env:REDIS_URL\"\nstream = \"orders\"\n\
         [destinations.nats]\nkind = \"nats\"\nurl = \"nats://nats.example:4222\"\nsubject = \"orders.{aggregate_id}\"\n\
         [destinations.rabbit]\nkind = \"amqp\"\nurl = \"env:AMQP_URL\"\nrouting_key = \"{event_type}\"",
    )
    .unwrap();
    let files = ["ca_file", "client_certificate_file", "client_key_file"];
    let choices = [&["secrets", "bearer", "headers", "connect_timeout", "rate"], &files[..]].concat();
    assert_eq!(defaults(&examples, "runner", &choices), defaults(&least, "runner", &choices));
    let own = ["default_exchange", "default_routing_key", "task", "master_name", "sentinel_password"];
    let choices = [&own[..], &["rate", "queues", "routes"], &files].concat();
    assert_eq!(defaults(&examples, "celery", &choices), defaults(&least, "celery", &choices));
    let own = ["master_name", "sentinel_password", "max_length", "deduplicate", "replicas", "rate"];
    let choices = [&own[..], &files].concat();
    assert_eq!(defaults(&examples, "streams", &choices), defaults(&least, "streams", &choices));
    let choices = [&["stream", "creds", "nkey", "token", "user", "password", "rate"], &files[..]].concat();
    assert_eq!(defaults(&examples, "nats", &choices), defaults(&least, "nats", &choices));
    let choices = [&["rate", "declare"], &files[..]].concat();
    assert_eq!(defaults(&examples, "rabbit", &choices), defaults(&least, "rabbit", &choices));
    #[cfg(all(feature = "sns", feature = "sqs"))]
    {
        let least = parse(
            "[destinations.queue]\nkind = \"sqs\"\nqueue_url = \"https://sqs.eu-west-1.amazonaws.com/123456789012/orders.fifo\"\n\
             [destinations.announcements]\nkind = \"sns\"\ntopic_arn = \"arn:aws:sns:eu-west-1:123456789012:announcements\"",
        )
        .unwrap();
        let own = ["region", "endpoint", "profile", "access_key_id", "secret_access_key", "session_token", "rate"];
        let choices = [&own[..], &files].concat();
        for name in ["queue", "announcements"] {
            assert_eq!(defaults(&examples, name, &choices), defaults(&least, name, &choices));
        }
    }
    #[cfg(feature = "kafka")]
    {
        let keys = "brokers = [\"kafka-1.example:9092\", \"kafka-2.example:9092\"]\ntopic = \"{aggregate_type}\"";
        let least = parse(&format!("[destinations.kafka]\nkind = \"kafka\"\n{keys}")).unwrap();
        let own = ["tls", "sasl_mechanism", "username", "password", "oauth_token_url", "oauth_client_id"];
        let choices = [&own[..], &["oauth_client_secret", "oauth_scope", "rate"], &files].concat();
        assert_eq!(defaults(&examples, "kafka", &choices), defaults(&least, "kafka", &choices));
    }
    assert_eq!(examples.routes[0].to, ["runner"]);
    assert_eq!(examples.routes[0].aggregates.as_str(), "*");
    let admin = &examples.admin;
    assert!(
        admin.listen == super::admin::Listen::At(super::admin::USUAL) && admin.tls.is_some() && !admin.behind_tls_proxy
    );
    assert_eq!((admin.hosts.len(), admin.mask.shown().len(), admin.users.len()), (1, 1, 1));
}

#[test]
fn the_default_files_examples_have_every_key_of_a_destination_and_a_route() {
    let examples: toml::Table = default_file_with_examples().parse().unwrap();
    let keys = |table: &toml::Value| table.as_table().unwrap().keys().cloned().collect::<Vec<_>>().join(", ");
    // The error for an unknown key lists all keys if none is similar.
    let all = |text: &str| {
        let problem = refusal(text);
        let mut all: Vec<String> =
            problem.split_once("choose one of: ").unwrap().1.split(", ").map(str::to_owned).collect();
        all.sort();
        all.join(", ")
    };
    let destinations = &examples["destinations"];
    let http = "[destinations.a]\nkind = \"http\"\nurl = \"https://a.example\"\nzzz = 1";
    assert_eq!(keys(&destinations["runner"]), all(http));
    let celery = "[destinations.a]\nkind = \"celery\"\nbroker = \"env:B\"\n";
    assert_eq!(keys(&destinations["celery"]), all(&format!("{celery}zzz = 1")));
    #[cfg(feature = "kafka")]
    {
        let kafka = "[destinations.a]\nkind = \"kafka\"\nbrokers = \"k:9092\"\ntopic = \"orders\"\nzzz = 1";
        assert_eq!(keys(&destinations["kafka"]), all(kafka));
    }
    let more = |what: &str| all(&format!("{celery}{what}zzz = 1"));
    assert_eq!(keys(&destinations["celery"]["routes"][0]), more("[[destinations.a.routes]]\ntasks = \"*\"\n"));
    assert_eq!(keys(&destinations["celery"]["queues"]["orders"]), more("[destinations.a.queues.q]\n"));
    let redis = "[destinations.a]\nkind = \"redis\"\nurl = \"env:R\"\nstream = \"s\"\nzzz = 1";
    assert_eq!(keys(&destinations["streams"]), all(redis));
    #[cfg(all(feature = "sns", feature = "sqs"))]
    {
        // Fixed credentials and a profile exclude each other, so each example leaves some keys commented.
        let sqs = "[destinations.a]\nkind = \"sqs\"\nqueue_url = \"https://a.example/1/a\"\nzzz = 1";
        assert_eq!(keys(&destinations["queue"]), all(sqs).replace("profile, ", ""));
        let sns = "[destinations.a]\nkind = \"sns\"\ntopic_arn = \"arn:aws:sns:eu-west-1:1:a\"\nzzz = 1";
        let own = ["access_key_id, ", "secret_access_key, ", "session_token, "];
        let without = own.iter().fold(all(sns), |all, key| all.replace(key, ""));
        assert_eq!(keys(&destinations["announcements"]), without);
    }
    let nats = "[destinations.a]\nkind = \"nats\"\nurl = \"nats://a\"\nsubject = \"x\"\nzzz = 1";
    assert_eq!(keys(&destinations["nats"]), all(nats));
    let amqp = "[destinations.a]\nkind = \"amqp\"\nurl = \"env:A\"\nrouting_key = \"b\"\n";
    assert_eq!(keys(&destinations["rabbit"]), all(&format!("{amqp}zzz = 1")));
    assert_eq!(keys(&destinations["rabbit"]["declare"]), all(&format!("{amqp}[destinations.a.declare]\nzzz = 1")));
    let route = "[destinations.a]\nkind = \"discard\"\n[[routes]]\nto = [\"a\"]\nzzz = 1";
    assert_eq!(keys(&examples["routes"][0]), all(route));
    assert_eq!(keys(&examples["schemas"][0]), all("[[schemas]]\nfile = \"order.json\"\nzzz = 1"));
    let both = "[destinations.a]\nkind = \"discard\"\nurl = \"x\"\nbroker = \"y\"\ndeclare = true";
    assert!(parse(both).is_ok(), "a dry run is one changed word");
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_the_nearest() {
    assert_eq!(
        refusal("[relay]\nbatch_sise = 5"),
        "pillarbox.toml: relay.batch_sise is not a key; did you mean batch_size?"
    );
    assert!(refusal("[relay]\nretry = { bas = \"1s\" }").contains("relay.retry.bas is not a key; did you mean base?"));
    assert!(refusal("[[route]]\nto = []").contains("route is not a section; did you mean routes?"));
    assert!(refusal("[destinations.a]\nkind = \"http\"\nurl = \"x\"\nsecret = []").contains("did you mean secrets?"));
}

#[test]
fn all_problems_are_told_at_once() {
    let problem = refusal("[relay]\nbatch_size = 0\nlease = 5\non_delivered = \"kepp\"\norder = \"agregate\"");
    assert!(problem.starts_with("the configuration has 4 problems:"), "{problem}");
    assert!(problem.contains("relay.batch_size is 0, but must be at least 1"), "{problem}");
    assert!(problem.contains("relay.lease is of type integer, but must be a duration"), "{problem}");
    assert!(problem.contains("relay.on_delivered is \"kepp\", which is not valid; did you mean keep?"), "{problem}");
    assert!(problem.contains("relay.order is \"agregate\", which is not valid; did you mean aggregate?"), "{problem}");
}

#[test]
fn the_order_of_aggregates_is_kept_when_asked_for() {
    use pillarbox::{OnFailed, Order};
    let order = |text: &str| parse(&format!("[relay]\n{text}")).unwrap().relay.order;
    assert_eq!(order(""), Order::None);
    assert_eq!(order("order = \"aggregate\""), Order::Aggregate(OnFailed::Block));
    assert_eq!(order("order = \"aggregate\"\norder_on_failed = \"skip\""), Order::Aggregate(OnFailed::Skip));
    let problem = refusal("[source]\nkind = \"django-celery-outbox\"\n[relay]\norder = \"aggregate\"");
    assert!(problem.contains("relay.order is \"aggregate\", but the tasks of django-celery-outbox"), "{problem}");
}

#[test]
fn a_route_to_nowhere_and_a_timeout_longer_than_the_lease_are_refused() {
    let problem = refusal("[destinations.runner]\nkind = \"discard\"\n[[routes]]\nto = [\"runer\"]");
    assert!(problem.contains("routes[0].to names \"runer\", which is not a destination; did you mean runner?"));
    assert!(refusal("[[routes]]\nevents = \"*\"").contains("routes[0].to is missing"));
    let problem = refusal("[destinations.a]\nkind = \"discard\"\n[[routes]]\nto = [\"a\", \"a\"]");
    assert!(problem.contains("routes[0].to names \"a\" twice"), "{problem}");
    let problem = refusal("[relay]\nlease = \"10500ms\"\n[destinations.a]\nkind = \"discard\"");
    assert!(problem.contains("must be less than relay.lease (10s 500ms) by a tenth or more"), "{problem}");
    let problem = refusal("[relay]\nlease = \"5s\"\n[destinations.a]\nkind = \"discard\"\ntimeout = \"6s\"");
    assert!(problem.contains("destinations.a.timeout is 6s, but must be less than relay.lease (5s)"), "{problem}");
    let problem = refusal("[relay]\nlease = \"5s\"\n[destinations.a]\nkind = \"discard\"");
    assert!(problem.contains("destinations.a.timeout is 10s, but must be less than relay.lease (5s)"), "{problem}");
    assert!(
        refusal("[destinations.unrouted]\nkind = \"discard\"").contains("destinations.unrouted has a reserved name")
    );
    assert!(refusal("[destinations.a]\nurl = \"https://a.example\"").contains("destinations.a.kind is missing"));
    assert!(refusal("[destinations.a]\nkind = \"http\"").contains("destinations.a.url is missing"));
}

#[test]
fn the_environment_overrides_every_scalar_of_database_and_relay() {
    let environment = Environment::from([
        ("PILLARBOX_DATABASE_URL", "postgres://ann:hunter2@db/shop"),
        ("PILLARBOX_DATABASE_SCHEMA", "outbox"),
        ("PILLARBOX_RELAY_BATCH_SIZE", "7"),
        ("PILLARBOX_RELAY_ON_DELIVERED", "delete"),
        ("PILLARBOX_RELAY_RETRY_BASE", "2s"),
        ("PILLARBOX_RELAY_RETRY_JITTER", "0.5"),
        ("PILLARBOX_RELAY_CLEANUP_EVERY", "0s"),
    ]);
    let settings = parse_with("[database]\nurl = \"sqlite://a.db\"\n[relay]\nbatch_size = 3", &environment).unwrap();
    assert_eq!(settings.database.shown(), "postgres://ann:***@db/shop");
    assert_eq!(settings.database.schema(), Some("outbox"));
    assert_eq!(settings.relay.batch_size, 7);
    assert_eq!(settings.relay.on_delivered, pillarbox::OnDelivered::Delete);
    assert_eq!(settings.relay.retry.base, Duration::from_secs(2));
    assert_eq!(settings.relay.retry.jitter, 0.5);
    assert_eq!(settings.relay.cleanup_every, None);
    let wrong = Environment::from([("PILLARBOX_RELAY_LEASE", "5 parsecs")]);
    let problem = parse_with("", &wrong).unwrap_err();
    assert!(problem.contains("variable PILLARBOX_RELAY_LEASE is \"5 parsecs\", but must be a duration"), "{problem}");
    assert!(refusal("[relay]\nlease = \"9000000000years\"").contains("must be at most 100 years"));
    let problem = refusal("[source]\nkind = \"wal\"\nlease = \"1s\"");
    assert!(problem.contains("source.lease is 1s, but must be at least 2s"), "{problem}");
}

#[test]
fn mysql_has_limits_and_no_schema() {
    let database = "[database]\nurl = \"mysql://ann:hunter2@db/shop\"\n";
    let shown = |more: &str| parse(&format!("{database}{more}")).unwrap().shown_json()["database"].clone();
    let defaults = serde_json::json!({
        "url": "mysql://ann:***@db/shop", "connections": 10, "deadline": "30s", "connect_timeout": "3s",
    });
    assert_eq!(shown(""), defaults);
    assert_eq!(shown("schema = \"public\""), defaults);
    let given = shown("connections = 4\ndeadline = \"7s\"\nconnect_timeout = \"1s\"");
    assert_eq!((&given["connections"], &given["deadline"]), (&4.into(), &"7s".into()));
    assert_eq!(given["connect_timeout"], "1s");
    let problem = refusal(&format!("{database}schema = \"outbox\""));
    assert!(problem.contains("database.schema is set, but MariaDB and MySQL have no schemas"), "{problem}");
    assert!(!problem.contains("hunter2"), "{problem}");
}

#[test]
fn metrics_and_the_liveness_file_come_from_the_file_or_the_environment() {
    let settings = parse(
        "[relay]\nliveness_file = \"/tmp/alive\"\n[metrics]\nstatsd = \"stats.example:9125\"\nprefix = \"shop.outbox\"\n\
         tags = { service = \"x\" }\nevery = \"1m\"",
    )
    .unwrap();
    assert_eq!(settings.liveness_file.as_deref(), Some(Path::new("/tmp/alive")));
    let shown = settings.shown_json();
    assert_eq!(
        shown["metrics"],
        serde_json::json!({ "statsd": "stats.example:9125", "prefix": "shop.outbox", "tags": { "service": "x" }, "every": "1m" })
    );
    let environment = Environment::from([
        ("PILLARBOX_RELAY_LIVENESS_FILE", "alive"),
        ("PILLARBOX_METRICS_STATSD", "127.0.0.1:8125"),
        ("PILLARBOX_METRICS_PREFIX", "celery_outbox"),
        ("PILLARBOX_METRICS_TAGS", "service=x, env=test"),
    ]);
    let settings = parse_with("", &environment).unwrap();
    assert_eq!(settings.liveness_file.as_deref(), Some(Path::new("alive")));
    assert_eq!(settings.metrics.statsd.as_deref(), Some("127.0.0.1:8125"));
    assert_eq!(settings.metrics.prefix, "celery_outbox");
    assert_eq!(
        settings.metrics.tags.into_iter().collect::<Vec<_>>(),
        [("env", "test"), ("service", "x")].map(|(name, value)| (name.to_owned(), value.to_owned()))
    );

    let problem = refusal("[metrics]\nstatsd = \"9125\"\nprefix = \"a b\"\ntags = { a = 1 }");
    assert!(problem.contains("metrics.statsd is \"9125\", but must be a host and a port"), "{problem}");
    assert!(problem.contains("metrics.prefix is \"a b\", but must be letters"), "{problem}");
    assert!(problem.contains("metrics.tags has \"a\", which is of type integer"), "{problem}");
    let wrong = Environment::from([("PILLARBOX_METRICS_TAGS", "service")]);
    assert!(parse_with("", &wrong).unwrap_err().contains("PILLARBOX_METRICS_TAGS must be written as name=value"));
}

#[test]
fn secrets_are_looked_up_when_they_are_needed_and_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "hunter2\n").unwrap();
    let text = format!(
        "[destinations.a]\nkind = \"http\"\nurl = \"https://a.example/?key=hunter2\"\nsecrets = [\"env:SECRET\"]\n\
         bearer = \"file:{}\"\nheaders = {{ x-key = \"hunter2\" }}",
        file.display()
    );
    let settings = parse(&text).unwrap();
    let problem = destination::build(&settings.destinations[0], &Environment::default(), &Mask::default())
        .err()
        .unwrap()
        .to_string();
    assert_eq!(
        problem,
        "destinations.a.secrets[0] is env:SECRET, but the environment variable SECRET is not set; set it"
    );
    let shown = format!("{settings:?} {}", settings.shown_json());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("*** (env:SECRET)") && shown.contains("https://a.example/?key=***"), "{shown}");

    let environment = Environment::from([("SECRET", "whsec_aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg==")]);
    assert!(destination::build(&settings.destinations[0], &environment, &Mask::default()).is_ok());
    let environment = Environment::from([("SECRET", "hunter2!")]);
    let problem =
        destination::build(&settings.destinations[0], &environment, &Mask::default()).err().unwrap().to_string();
    assert!(problem.starts_with("destinations.a.secrets[0] is not a Standard Webhooks secret"), "{problem}");
    assert!(!problem.contains("hunter2"), "{problem}");
    std::fs::remove_file(&file).unwrap();
    let environment = Environment::from([("SECRET", "whsec_aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg==")]);
    let problem =
        destination::build(&settings.destinations[0], &environment, &Mask::default()).err().unwrap().to_string();
    assert!(problem.starts_with("destinations.a.bearer is file:"), "{problem}");
}

#[test]
fn a_broken_line_is_named_and_not_shown() {
    let problem = refusal("[destinations.a]\nbearer = \"hunter2");
    assert!(problem.starts_with("pillarbox.toml:2: invalid TOML:"), "{problem}");
    assert!(!problem.contains("hunter2"), "{problem}");
    let problem = refusal("[destinations.a]\nkind = \"discard\"\nsecrets = \"hunter2\"");
    assert!(problem.contains("destinations.a.secrets is of type string, but must be a list"), "{problem}");
    assert!(!problem.contains("hunter2"), "{problem}");
}
