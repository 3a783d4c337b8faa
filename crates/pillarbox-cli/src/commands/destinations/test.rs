//! `pillarbox destinations test`: sends one test event through a destination's sink, and prints the response.

use std::process::ExitCode;

use pillarbox::sink::Tested;
use pillarbox_admin::desk::{advice, kind_name};
use serde_json::{Value, json};

use super::super::{Misuse, Session};
use super::who;
use crate::config::destination::build;
use crate::told;

pub(super) async fn run(name: &str, headers: &[(String, String)], session: &Session) -> anyhow::Result<ExitCode> {
    let destination = session.settings.destination(name)?;
    if let Some(reason) = destination.untestable() {
        return Err(Misuse(format!("no test event was sent: {name} {reason}")).into());
    }
    let built = build(destination, &session.environment, &session.settings.admin.mask)?;
    // Beside each other: a destination can be tested before there is an outbox.
    let (tested, audited) = tokio::join!(built.test(headers.iter().cloned().collect()), audit(name, session));
    session.output.answer(&described(name, &tested), || render(name, &tested))?;
    if let Err(error) = audited {
        session.output.note(&format!("the test is not in the audit: {}", told(&error)));
    }
    Ok(if tested.result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn audit(name: &str, session: &Session) -> anyhow::Result<()> {
    session.own("it has no audit")?;
    session.open().await?.inspect().open_entry(&who(), "test", name).await?;
    Ok(())
}

fn described(name: &str, tested: &Tested) -> Value {
    let (receipt, error) = (tested.result.as_ref().ok(), tested.result.as_ref().err());
    json!({
        "destination": name,
        "id": tested.id,
        "delivered": receipt.is_some(),
        "took_seconds": tested.took.as_secs_f64(),
        "status_code": receipt.map_or_else(|| error.and_then(|error| error.status), |receipt| receipt.status),
        "error": error.map(|error| &error.message),
        "error_kind": error.map(|error| kind_name(error.kind)),
        "answer": error.and_then(|error| error.answer.as_ref()),
        "advice": error.map(|error| advice(error.kind)),
    })
}

fn render(name: &str, tested: &Tested) -> String {
    let Tested { id, took, result, .. } = tested;
    let took = took.as_millis();
    match result {
        Ok(receipt) => {
            let status = receipt.status.map(|status| format!(": status {status}")).unwrap_or_default();
            format!("{name}: the test event {id} was delivered in {took} ms{status}")
        }
        Err(error) => {
            let kind = kind_name(error.kind);
            let mut text =
                format!("{name}: the test event {id} was not delivered, after {took} ms\n  error   {error} ({kind})\n");
            if let Some(answer) = &error.answer {
                text.push_str(&format!("  answer  {}\n", answer.trim().replace('\n', "\n          ")));
            }
            text.push_str(&format!("  {}", advice(error.kind)));
            text
        }
    }
}
