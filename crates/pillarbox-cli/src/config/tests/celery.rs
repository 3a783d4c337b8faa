//! Brokers of Celery, and the tables of django-celery-outbox.

use std::any::Any;

use pillarbox::OnDelivered;
use pillarbox_sinks::celery::{CeleryTarget, QueueType};

use super::*;

const BROKER: &str = "[destinations.celery]\nkind = \"celery\"\nbroker = \"amqp://ann:hunter2@rabbit:5672//\"\n";
const DJANGO: &str = "[source]\nkind = \"django-celery-outbox\"\n";

fn celery(settings: &Settings) -> &CeleryTarget {
    let target: &dyn Any = settings.destinations[0].target();
    target.downcast_ref().unwrap()
}

#[test]
fn a_broker_has_queues_and_routes_and_its_password_is_not_shown() {
    let settings = parse(&format!(
        "{BROKER}default_queue = \"main\"\ndeclare = true\nqueue_type = \"quorum\"\ntask = \"orders.handle\"\n\
         key_prefix = \"shop-\"\npriority_steps = [0, 5]\nmaster_name = \"m\"\nrate = 10\npaused = true\n\
         [[destinations.celery.routes]]\ntasks = \"orders.*\"\nqueue = \"orders\"\npriority = 3\n\
         [destinations.celery.queues.orders]\nexchange = \"shop\"\nexchange_type = \"topic\"\nrouting_key = \"orders.#\"\n\
         arguments = {{ x-queue-type = \"quorum\", x-max-priority = 10 }}\n"
    ))
    .unwrap();
    let keys = &celery(&settings).settings;
    assert_eq!((keys.default_queue.as_str(), keys.declare, keys.queue_type), ("main", true, QueueType::Quorum));
    assert_eq!((keys.key_prefix.as_str(), &keys.priority_steps[..]), ("shop-", &[0, 5][..]));
    let queue = &keys.queues["orders"];
    assert_eq!((queue.exchange.as_deref(), queue.exchange_type.as_str()), (Some("shop"), "topic"));
    assert_eq!(queue.arguments["x-max-priority"], 10);
    let route = &keys.routes[0];
    assert_eq!((route.tasks.as_str(), route.queue.as_deref(), route.priority), ("orders.*", Some("orders"), Some(3)));
    assert_eq!(settings.destinations[0].concurrency, 2);

    let shown = format!("{settings:?} {}", settings.shown_json());
    assert!(!shown.contains("hunter2") && shown.contains("amqp://***@rabbit:5672//"), "{shown}");
    assert_eq!(settings.shown_json()["destinations"]["celery"]["queues"]["orders"]["arguments"]["x-max-priority"], 10);
    assert!(destination::build(&settings.destinations[0], &Environment::default(), &Mask::default()).is_ok());
}

#[test]
fn what_is_wrong_with_a_broker_is_told_with_its_key() {
    let problem = refusal(
        "[destinations.a]\nkind = \"celery\"\nqueue_type = \"quorom\"\npriority_steps = [0, 300]\nurl = \"x\"\n\
         [[destinations.a.routes]]\nqueue = \"q\"\n[destinations.a.queues.q]\nexchange_typ = \"topic\"\narguments = 1",
    );
    for told in [
        "destinations.a.broker is missing; write the broker's URL",
        "destinations.a.queue_type is \"quorom\", which is not valid; did you mean quorum?",
        "destinations.a.priority_steps is 300, but must be a number from 0 to 255",
        "destinations.a.url is not a key",
        "destinations.a.routes[0].tasks is missing",
        "destinations.a.queues.q.exchange_typ is not a key; did you mean exchange_type?",
        "destinations.a.queues.q.arguments is of type integer, but must be a table",
    ] {
        assert!(problem.contains(told), "{told}: {problem}");
    }
    let built = |broker: &str, environment: &Environment| {
        let settings = parse(&format!("[destinations.a]\nkind = \"celery\"\nbroker = \"{broker}\"")).unwrap();
        destination::build(&settings.destinations[0], environment, &Mask::default())
            .err()
            .map(|error| error.to_string())
    };
    let problem = built("kafka://ann:hunter2@host", &Environment::default()).unwrap();
    assert!(problem.starts_with("destinations.a.broker has the scheme \"kafka\""), "{problem}");
    let problem = built("env:BROKER", &Environment::default()).unwrap();
    assert!(problem.starts_with("destinations.a.broker is env:BROKER, but the environment variable"), "{problem}");
    assert_eq!(built("env:BROKER", &Environment::from([("BROKER", "redis://localhost/0")])), None);
}

#[test]
fn recorded_tasks_need_no_route_to_the_one_broker() {
    let settings = parse(BROKER).unwrap();
    let [route] = &settings.routes[..] else { panic!("{:?}", settings.routes) };
    assert_eq!((route.aggregates.as_str(), &route.to[..]), ("celery", &["celery".to_owned()][..]));
    let settings = parse(&format!("{BROKER}[[routes]]\nevents = \"order.*\"\nto = [\"celery\"]")).unwrap();
    assert_eq!(settings.routes.len(), 1);
    assert_eq!(settings.routes[0].events.as_str(), "order.*");
}

#[test]
fn without_a_configuration_the_environment_names_the_broker() {
    let environment = Environment::from([("PILLARBOX_BROKER_URL", "redis://:hunter2@localhost/0")]);
    let settings = parse_with("", &environment).unwrap();
    assert_eq!(settings.shown_json()["destinations"]["celery"]["broker"], "*** (env:PILLARBOX_BROKER_URL)");
    assert!(destination::build(&settings.destinations[0], &environment, &Mask::default()).is_ok());
    let settings = parse_with("[destinations.a]\nkind = \"discard\"", &environment).unwrap();
    assert_eq!(settings.destinations.len(), 1, "what is written counts");
}

#[test]
fn django_celery_outbox_has_its_own_defaults_and_sends_everything_to_the_one_broker() {
    let settings = parse(&format!("{DJANGO}{BROKER}")).unwrap();
    settings.check_source().unwrap();
    assert_eq!(settings.routes[0].aggregates.as_str(), "*");
    let relay = &settings.relay;
    assert_eq!((relay.retry.base, relay.retry.max_attempts), (Duration::from_secs(120), 5));
    assert_eq!((relay.lease, relay.on_delivered), (Duration::from_secs(300), OnDelivered::Delete));
    assert_eq!(
        (relay.poll_interval, relay.poll_interval_unwoken),
        (Duration::from_millis(50), Duration::from_millis(50))
    );
    assert_eq!(
        (settings.source.cooldown, settings.metrics.prefix.as_str()),
        (Duration::from_secs(30), "celery_outbox")
    );

    let text = format!("{DJANGO}cooldown = \"1m\"\n[relay]\npoll_interval = \"2s\"\nretry.cap = \"10s\"\n{BROKER}");
    let settings = parse(&text).unwrap();
    assert_eq!(settings.relay.poll_interval_unwoken, Duration::from_secs(2), "what was asked for is honoured");
    assert_eq!(settings.relay.retry.cap, Duration::from_secs(10));
    assert_eq!(settings.source.cooldown, Duration::from_secs(60));
}

#[test]
fn tasks_of_django_celery_outbox_need_a_broker() {
    let refused = |text: &str| parse(text).unwrap().check_source().unwrap_err().to_string();
    let problem = refused(DJANGO);
    assert!(
        problem.contains("no destination of kind \"celery\"") && problem.contains("PILLARBOX_BROKER_URL"),
        "{problem}"
    );
    let problem = refused(&format!("{DJANGO}{BROKER}{}", BROKER.replace("destinations.celery", "destinations.other")));
    assert!(problem.contains("2 destinations of kind \"celery\" and no [[routes]]"), "{problem}");
    assert!(refusal("[source]\nkind = \"django\"").contains("source.kind is \"django\", which is not valid"));
}

#[test]
fn a_flag_wins_over_variable_and_file_and_is_named_in_what_is_wrong_with_it() {
    let mut environment = Environment::from([("PILLARBOX_RELAY_BATCH_SIZE", "7")]);
    environment.flag("PILLARBOX_RELAY_BATCH_SIZE", "--batch-size", "9".to_owned());
    environment.flag("PILLARBOX_CELERY_TIMEOUT", "--send-timeout", "3s".to_owned());
    let settings = parse_with(&format!("{BROKER}timeout = \"5s\"\n[relay]\nbatch_size = 8"), &environment).unwrap();
    assert_eq!((settings.relay.batch_size, settings.destinations[0].timeout), (9, Duration::from_secs(3)));
    environment.flag("PILLARBOX_RELAY_BATCH_SIZE", "--batch-size", "0".to_owned());
    assert_eq!(parse_with("", &environment).unwrap_err(), "--batch-size is 0, but must be at least 1");
}
