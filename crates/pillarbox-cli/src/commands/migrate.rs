//! `pillarbox migrate`: creates or upgrades the outbox's tables, and grants database roles their rights.

use std::fmt::Write;

use clap::Args;
use pillarbox::store::{Migration, Role};
use serde_json::json;

use super::Session;
use crate::store::Opened;

/// `--emit-role` and `--relay-role` print the statements that grant these roles their rights, to be reviewed or piped on;
/// with `--apply` they are also run.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A database role (MariaDB, MySQL: USER or USER@HOST) that only emits: print the grants it needs
    #[arg(long, value_name = "ROLE")]
    emit_role: Option<String>,
    /// A database role (MariaDB, MySQL: USER or USER@HOST) that relays and looks after the outbox: print the grants it needs
    #[arg(long, value_name = "ROLE")]
    relay_role: Option<String>,
    /// Run the grants as well
    #[arg(long, requires = "roles")]
    apply: bool,
    #[command(flatten)]
    _roles: Roles,
}

/// A group, so that `--apply` can require one of its flags.
#[derive(Debug, Args)]
#[group(id = "roles", multiple = true, args = ["emit_role", "relay_role"])]
struct Roles {}

pub(crate) async fn run(arguments: &Arguments, session: &Session) -> anyhow::Result<()> {
    session.own("its tables are made by `manage.py migrate django_celery_outbox`")?;
    let opened = Opened::bare(&session.settings.database).await?;
    let mut grants = Vec::new();
    for (kind, role) in arguments.roles() {
        grants.push((kind, role, opened.grants(kind, role)?));
    }
    let applied = opened.migrate().await?;
    if arguments.apply {
        for (kind, role, _) in &grants {
            opened.grant(*kind, role).await?;
        }
    }
    let statements: String = grants.iter().map(|(_, _, statements)| statements.as_str()).collect();
    let migrated = told(&applied, &session.settings.database.shown());
    let answer = json!({
        "applied": applied.iter().map(|migration| json!({ "version": migration.version, "name": migration.name })).collect::<Vec<_>>(),
        "grants": statements,
        "granted": arguments.apply,
    });
    if grants.is_empty() || session.output.is_json() {
        session.output.answer(&answer, || migrated)?;
    } else {
        // Standard output has only the statements, so that they can be piped into a client.
        session.output.note(migrated.trim_end());
        session.output.answer(&answer, || statements)?;
        session.output.note(if arguments.apply {
            "granted"
        } else {
            "nothing was granted; run the statements, or add --apply"
        });
    }
    Ok(())
}

impl Arguments {
    fn roles(&self) -> impl Iterator<Item = (Role, &str)> {
        let emit = self.emit_role.as_deref().map(|role| (Role::Emit, role));
        let relay = self.relay_role.as_deref().map(|role| (Role::Relay, role));
        emit.into_iter().chain(relay)
    }
}

fn told(applied: &[Migration], database: &str) -> String {
    if applied.is_empty() {
        return format!("the outbox's tables in {database} are up to date");
    }
    applied.iter().fold(String::new(), |mut text, migration| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "applied {:04} {} to {database}", migration.version, migration.name);
        text
    })
}
