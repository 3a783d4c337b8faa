//! `pillarbox check-config`: checks the configuration as far as possible without sending anything, and shows the effective
//! settings.

use std::collections::BTreeSet;

use clap::Args;
use pillarbox::store::Retention;
use pillarbox::{OnDelivered, Unrouted};
use serde_json::json;

use super::{Session, fleet};
use crate::config::admin::Listen;
use crate::config::destination::{build, registry};
use crate::config::source::{DJANGO_CELERY_OUTBOX, SourceKind};
use crate::config::{DEFAULT_FILE, Settings};
use crate::output::Output;
use crate::told;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print the commented default configuration instead
    #[arg(long)]
    pub(crate) default: bool,
}

pub(crate) fn print_default(output: Output) -> anyhow::Result<()> {
    Ok(output.answer(&json!({ "default": DEFAULT_FILE }), || DEFAULT_FILE.to_owned())?)
}

pub(crate) async fn run(session: &Session) -> anyhow::Result<()> {
    let settings = &session.settings;
    settings.check_source()?;
    for destination in &settings.destinations {
        build(destination, &session.environment, &settings.admin.mask)?;
    }
    settings.read_schemas()?;
    for user in &settings.admin.users {
        user.known(&session.environment)?;
    }
    settings.tracing.export(&session.environment)?;
    let mut remarks = remarks(session);
    match fleet::compare(session).await {
        Ok(differs) => remarks.extend(differs),
        Err(error) => session.output.note(&format!("running relays were not compared with it: {}", told(&error))),
    }
    let file = settings.file.as_ref().map(|file| file.display().to_string());
    let answer = json!({ "file": file, "settings": settings.shown_json(), "remarks": remarks });
    session.output.answer(&answer, || {
        let file = file.as_deref().unwrap_or("no file; defaults and environment");
        let mut text = format!("# effective configuration: {file}\n");
        for shown in settings.shown() {
            text.push_str(&format!("\n{shown}"));
        }
        text
    })?;
    for remark in &remarks {
        session.output.note(&format!("note: {remark}"));
    }
    session.output.note("configuration is valid");
    Ok(())
}

/// Returns a remark for each setting that is allowed and probably a mistake.
pub(super) fn remarks(session: &Session) -> Vec<String> {
    let settings = &session.settings;
    let mut remarks = Vec::new();
    if settings.routes.is_empty() {
        remarks.push("there are no routes, so every event will be parked as unrouted; add [[routes]]".to_owned());
    }
    let used: BTreeSet<&str> = settings.routes.iter().flat_map(|route| &route.to).map(String::as_str).collect();
    for destination in &settings.destinations {
        let name = destination.name.as_str();
        if !used.contains(name) {
            remarks.push(format!("no route to destination {name:?}"));
        }
        if destination.paused {
            remarks.push(format!("destination {name:?} is paused: its events are parked"));
        }
        remarks.extend(destination.remarks(&session.environment));
    }
    remarks.extend(discarded(settings));
    remarks.extend(never_direct(settings));
    if settings.source.kind == SourceKind::DjangoCeleryOutbox {
        remarks
            .extend(without_effect(settings).map(|what| format!("with source.kind {DJANGO_CELERY_OUTBOX:?} {what}")));
    }
    if let (Some(_), Some(protocol)) = (&settings.tracing.endpoint, &settings.tracing.unspoken) {
        remarks.push(format!(
            "OTEL_EXPORTER_OTLP_PROTOCOL is {protocol:?}, but spans are exported as http/protobuf: the collector must \
             accept that, usually at port 4318"
        ));
    }
    let admin = &settings.admin;
    if !admin.listen.address().ip().is_loopback() && admin.tls.is_none() && !admin.behind_tls_proxy {
        remarks.push(
            "admin.listen is reachable from other hosts without TLS, so passwords can be read on the network; set \
             admin.tls_certificate and tls_key, or behind_tls_proxy if a proxy in front of it does TLS"
                .to_owned(),
        );
    }
    if admin.behind_tls_proxy && admin.trusted_proxies.is_empty() {
        remarks.push(
            "admin.trusted_proxies is not set, so X-Forwarded-For is ignored and failed log-ins of all people count for the \
             proxy's address; set it to the address of the proxy"
                .to_owned(),
        );
    }
    remarks
}

/// Returns a remark on the destinations that never get an event of the log directly. The leader begins a send only while more of its
/// lease is left than the timeout.
fn never_direct(settings: &Settings) -> Option<String> {
    let lease = settings.source.lease;
    let slow = settings.destinations.iter().filter(|destination| destination.timeout >= lease);
    let names: Vec<&str> = slow.map(|destination| destination.name.as_str()).collect();
    (settings.source.kind == SourceKind::Wal && !names.is_empty()).then(|| {
        format!(
            "the timeout of {} is not shorter than source.lease ({lease:?}), so each of their events goes through the table, and none \
             is sent directly from the log; make the timeout shorter, or source.lease longer",
            names.join(", ")
        )
    })
}

/// Returns a warning for each setting that marks events as delivered without sending them.
pub(super) fn discarded(settings: &Settings) -> Vec<String> {
    let is_used = |name: &String| settings.routes.iter().any(|route| route.to.contains(name));
    let discarding = settings.destinations.iter().filter(|one| one.is_dry_run() && is_used(&one.name));
    let mut warnings: Vec<String> = discarding
        .map(|destination| {
            format!(
                "destination {:?} discards events: it marks them delivered and sends nothing; set its kind to {} unless this \
                 is a dry run",
                destination.name,
                registry().sending()
            )
        })
        .collect();
    if settings.relay.unrouted == Unrouted::Discard {
        warnings.push(
            "relay.unrouted discards events: events that match no route are marked delivered and not sent; set it to \
             \"park\" to keep them"
                .to_owned(),
        );
    }
    warnings
}

/// Returns a remark for each setting that has no effect on the tables of django-celery-outbox.
fn without_effect(settings: &Settings) -> impl Iterator<Item = &'static str> {
    let relay = &settings.relay;
    let keeps = (relay.on_delivered == OnDelivered::Keep).then_some(
        "relay.on_delivered = \"keep\" has no effect: delivered tasks are deleted, as django-celery-outbox's own \
         relay does",
    );
    let cleans = (relay.cleanup_every.is_some() || relay.retention != Retention::default()).then_some(
        "[relay.cleanup] has no effect: old dead letters are deleted by `manage.py celery_outbox_purge_dead_letter`",
    );
    let shows = matches!(settings.admin.listen, Listen::At(_))
        .then_some("admin.listen has no effect: use Django's admin for tasks");
    let checks = (!settings.schemas.is_empty())
        .then_some("[[schemas]] have no effect: the payload of a task is a message of Celery");
    keeps.into_iter().chain(cleans).chain(shows).chain(checks)
}
