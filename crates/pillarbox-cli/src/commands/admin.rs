//! `pillarbox admin`: serves the admin alone, and makes hashes and tokens for its users.

use std::io::{IsTerminal, Read};
use std::net::SocketAddr;

use anyhow::Context;
use clap::{Args, Subcommand};
use pillarbox_admin::secret;
use serde_json::json;

use super::relay::stop_signal;
use super::{Misuse, Session};
use crate::admin::{self, Insistence};
use crate::config::Environment;
use crate::output::Output;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// The address to listen on, in place of admin.listen
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum Command {
    /// Print the hash of a password, for admin.users.NAME.password
    ///
    /// The password is asked for on the terminal, or read from standard input: one line.
    HashPassword,
    /// Make a token for the API and print it, once, with the hash for admin.users.NAME.token
    MakeToken,
}

impl Arguments {
    pub(crate) fn override_configuration(&self, environment: &mut Environment) {
        if let Some(listen) = self.listen {
            environment.flag("PILLARBOX_ADMIN_LISTEN", "--listen", listen.to_string());
        }
    }
}

/// Serves until SIGTERM or SIGINT.
pub(crate) async fn run(session: &Session) -> anyhow::Result<()> {
    session.own("use Django's admin for tasks")?;
    let stop = stop_signal(None)?;
    let people = session.open().await?.people();
    let desk = admin::desk_that_tests(people, &session.settings, &session.environment);
    let serving = admin::serve(&session.settings.admin, &session.environment, Insistence::Always, desk).await?;
    stop.await;
    drop(serving);
    Ok(())
}

/// Makes a hash or a token. Needs no configuration.
pub(crate) fn prepare(command: Command, output: Output) -> anyhow::Result<()> {
    match command {
        Command::HashPassword => {
            let hash = secret::hash_password(&password()?)?;
            output.answer(&json!({ "password": hash }), || hash.clone())?;
        }
        Command::MakeToken => {
            let made = secret::new_token()?;
            let (token, hash) = (made.token, made.hash);
            output.answer(&json!({ "token": token, "hash": hash }), || {
                format!("the token, which is shown only once:\n  {token}\nfor the configuration:\n  token = \"{hash}\"")
            })?;
        }
    }
    Ok(())
}

fn password() -> anyhow::Result<String> {
    let password = if std::io::stdin().is_terminal() {
        let ask = |prompt| rpassword::prompt_password(prompt).context("reading the password from the terminal failed");
        let password = ask("Password: ")?;
        if password != ask("Repeat: ")? {
            return Err(Misuse("the passwords do not match; try again".to_owned()).into());
        }
        password
    } else {
        let mut input = String::new();
        std::io::stdin().read_to_string(&mut input).context("reading the password from standard input failed")?;
        input.trim_end_matches(['\r', '\n']).to_owned()
    };
    match password.as_str() {
        "" => Err(Misuse("the password is empty; write it to standard input, or type it".to_owned()).into()),
        _ if password.contains(['\r', '\n']) => {
            Err(Misuse("the password has several lines; write one".to_owned()).into())
        }
        _ => Ok(password),
    }
}
