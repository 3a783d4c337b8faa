//! `pillarbox keys`: lists the keys that sign requests, makes new ones, and says how to rotate them. It edits no file, and shows a
//! secret only when it has just made it.

use std::collections::HashSet;

use anyhow::Context;
use chrono::Utc;
use clap::{Args, Subcommand, ValueEnum};
use pillarbox_sinks::DestinationSettings;
use pillarbox_sinks::http::NewKey;
use pillarbox_sinks::registry::{KeyKind, ShownKey, SigningEntry};
use rand::TryRng;
use rand::rngs::SysRng;
use serde_json::{Value, json};

use super::completions::destinations;
use super::{Misuse, Session};
use crate::output::Output;
use crate::table::{Align, Table};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Make a key and print it, once. It needs no configuration, and writes no file
    ///
    /// An Ed25519 key is a pair: the private key (whsk_…) for `secrets` of the destination, and the public key (whpk_…) for receivers.
    /// An HMAC secret (whsec_…) is the same for both.
    New {
        /// The kind of the key
        #[arg(long, value_enum, default_value_t = Kind::Ed25519)]
        kind: Kind,
    },
    /// Make a key for a destination and print it, once, with the steps of the rotation. It writes no file
    ///
    /// Prints what to write into `secrets`, the new key first and the old one second, what receivers configure, and when the old key can
    /// be removed. While both are there, each request has both signatures, so receivers change when they like.
    Rotate {
        /// The destination's name
        #[arg(add = destinations())]
        destination: String,
        /// The kind of the new key; by default that of the present key
        #[arg(long, value_enum)]
        kind: Option<Kind>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A pair of a private and a public key; receivers verify `v1a` signatures
    Ed25519,
    /// A secret that sender and receivers share; receivers verify `v1` signatures, as every Standard Webhooks library can
    Hmac,
}

impl From<Kind> for KeyKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Ed25519 => Self::Ed25519,
            Kind::Hmac => Self::Hmac,
        }
    }
}

/// Prints a new key. Needs no configuration.
pub(crate) fn make(kind: Kind, output: Output) -> anyhow::Result<()> {
    let key = new_key(kind.into())?;
    let answer =
        json!({ "kind": key.shown.kind.as_str(), "secret": key.secret.expose(), "public_key": key.shown.public });
    Ok(output
        .answer(&answer, || format!("{}, which {}:\n{}", title(key.shown.kind), "is shown only once", lines(&key)))?)
}

fn new_key(kind: KeyKind) -> anyhow::Result<NewKey> {
    let mut random = [0; 32];
    SysRng.try_fill_bytes(&mut random).context("the system's random number generator failed")?;
    Ok(NewKey::from_random(kind, &random))
}

fn title(kind: KeyKind) -> &'static str {
    match kind {
        KeyKind::Ed25519 => "a new Ed25519 key",
        KeyKind::Hmac => "a new HMAC secret",
    }
}

/// Returns the lines that show a new key.
fn lines(key: &NewKey) -> String {
    match &key.shown.public {
        Some(public) => format!(
            "  private key, for the sender    {}\n  public key, for receivers      {public}",
            key.secret.expose()
        ),
        None => format!("  for the sender and receivers   {}", key.secret.expose()),
    }
}

pub(crate) fn run(command: Option<Command>, session: &Session) -> anyhow::Result<()> {
    match command {
        None => list(session),
        Some(Command::New { kind }) => make(kind, session.output),
        Some(Command::Rotate { destination, kind }) => rotate(&destination, kind, session),
    }
}

/// Lists the keys of all destinations that can sign, without secrets.
fn list(session: &Session) -> anyhow::Result<()> {
    let signing = session.settings.destinations.iter();
    let signing = signing.filter_map(|one| Some((one.name.as_str(), one.signing_keys(&session.environment)?)));
    let signing: Vec<(&str, Vec<SigningEntry>)> = signing.collect();
    let answer = signing.iter().map(|(name, keys)| json!({ "destination": name, "keys": described(keys) }));
    let answer: Vec<_> = answer.collect();
    session.output.answer(&answer, || {
        if signing.is_empty() {
            return "no destination of kind \"http\" is configured, and other kinds do not sign".to_owned();
        }
        let mut table = Table::new([
            ("DESTINATION", Align::Left),
            ("SECRET", Align::Left),
            ("KIND", Align::Left),
            ("PUBLIC KEY", Align::Whole),
        ]);
        for (name, keys) in &signing {
            if keys.is_empty() {
                table.row([(*name).to_owned(), "–".to_owned(), "not signed".to_owned(), String::new()]);
            }
            for entry in keys {
                let (kind, public) = match &entry.key {
                    Ok(ShownKey { kind, public }) => (kind.as_str(), public.clone().unwrap_or_default()),
                    Err(error) => ("unusable", error.clone()),
                };
                table.row([(*name).to_owned(), place(entry), kind.to_owned(), public]);
            }
        }
        table.render()
    })?;
    Ok(())
}

fn described(keys: &[SigningEntry]) -> Vec<Value> {
    let described = keys.iter().map(|entry| match &entry.key {
        Ok(ShownKey { kind, public }) => {
            json!({ "secret": place(entry), "kind": kind.as_str(), "public_key": public, "error": null })
        }
        Err(error) => json!({ "secret": place(entry), "kind": null, "public_key": null, "error": error }),
    });
    described.collect()
}

/// Returns where a secret is, and `***` for one in the configuration itself.
fn place(entry: &SigningEntry) -> String {
    entry.written.clone().unwrap_or_else(|| "***".to_owned())
}

fn rotate(name: &str, kind: Option<Kind>, session: &Session) -> anyhow::Result<()> {
    let destination = session.settings.destination(name)?;
    let Some(present) = destination.signing_keys(&session.environment) else {
        return Err(Misuse(format!(
            "destination {name:?} is of kind {:?}, which does not sign; only destinations of kind \"http\" have keys",
            destination.kind()
        ))
        .into());
    };
    let old = present.first();
    let kind = match (kind, old.map(|old| &old.key)) {
        (Some(kind), _) => kind.into(),
        (None, None) => KeyKind::Ed25519,
        (None, Some(Ok(key))) => key.kind,
        (None, Some(Err(error))) => {
            return Err(Misuse(format!(
                "the kind of the present key of {name:?} is not known: {error}; or choose one with --kind"
            ))
            .into());
        }
    };
    let signing = session.settings.destinations.iter();
    let taken = signing.filter_map(|destination| destination.signing_keys(&session.environment)).flatten();
    let taken = taken.filter_map(|entry| entry.written).collect();
    let more = present.len().saturating_sub(1);
    let rotation = Rotation { destination, old, more, taken, key: new_key(kind)? };
    session.output.answer(&rotation.to_json(), || rotation.to_text())?;
    Ok(())
}

/// A new key, and what to do with it.
struct Rotation<'a> {
    destination: &'a DestinationSettings,
    old: Option<&'a SigningEntry>,
    /// The number of present keys besides the first one.
    more: usize,
    /// The places of all secrets that the configuration names.
    taken: HashSet<String>,
    key: NewKey,
}

impl Rotation<'_> {
    /// Returns the name of a variable for the new key, `BILLING_KEY_20261118`, with a number if the configuration has that already: after
    /// another rotation on this day, or for another destination.
    fn variable(&self) -> String {
        let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
        let name: String = self.destination.name.chars().map(letter).collect();
        let digit = if name.starts_with(|first: char| first.is_ascii_digit()) { "_" } else { "" };
        let name = format!("{digit}{name}_KEY_{}", Utc::now().format("%Y%m%d"));
        (1_u32..)
            .map(|number| if number == 1 { name.clone() } else { format!("{name}_{number}") })
            .find(|name| !self.taken.contains(&format!("env:{name}")))
            .unwrap_or_default()
    }

    /// Returns the values of `secrets` during the overlap.
    fn secrets(&self) -> Vec<String> {
        let present = || "the present secret, as it is written now".to_owned();
        let old = self.old.map(|old| old.written.clone().unwrap_or_else(present));
        [format!("env:{}", self.variable())].into_iter().chain(old).collect()
    }

    fn to_json(&self) -> Value {
        json!({
            "destination": self.destination.name,
            "kind": self.key.shown.kind.as_str(),
            "secret": self.key.secret.expose(),
            "public_key": self.key.shown.public,
            "variable": self.variable(),
            "secrets_during_the_overlap": self.secrets(),
            "secrets_afterwards": self.secrets().first(),
            "old_key": self.old.map(|old| described(std::slice::from_ref(old)).remove(0)),
            "steps": self.steps(),
        })
    }

    fn to_text(&self) -> String {
        let title = title(self.key.shown.kind);
        let mut text =
            format!("{title} for {}, which is shown only once:\n{}\n", self.destination.name, lines(&self.key));
        for (number, step) in self.steps().iter().enumerate() {
            text.push_str(&format!("\n{}. {}\n", number + 1, step.replace('\n', "\n   ")));
        }
        text
    }

    fn steps(&self) -> Vec<String> {
        let (name, variable, secrets) = (toml_key(&self.destination.name), self.variable(), self.secrets());
        let (ours, theirs) = match self.key.shown.kind {
            KeyKind::Ed25519 => ("private key", "public key"),
            KeyKind::Hmac => ("secret", "secret"),
        };
        let written = |secrets: &[String]| {
            let secrets: Vec<String> = secrets.iter().map(|secret| format!("{secret:?}")).collect();
            format!("[destinations.{name}]\nsecrets = [{}]", secrets.join(", "))
        };
        let set = format!(
            "On the hosts of all relays, set {variable} to the {ours}, and write into the configuration:\n\n{}\n",
            written(&secrets)
        );
        let Some(old) = self.old else {
            return vec![
                format!(
                    "Give receivers the {theirs}. Requests are not signed yet, so they must not insist on a signature."
                ),
                format!("{set}\nCheck it with `pillarbox check-config`, and restart the relays."),
                "When all relays run with it, receivers refuse requests without a valid signature.".to_owned(),
            ];
        };
        let dropped = match self.more {
            0 => String::new(),
            _ => "A rotation is under way: secrets has more than one entry. This list keeps only the first of them, so make sure first \
                  that all receivers have that key. "
                .to_owned(),
        };
        let other_kind = match &old.key {
            Ok(old) if old.kind != self.key.shown.kind => {
                let version = if self.key.shown.kind == KeyKind::Ed25519 { "v1a" } else { "v1" };
                format!(" The new key is of another kind: receivers must be able to verify {version} signatures.")
            }
            _ => String::new(),
        };
        vec![
            format!(
                "{dropped}{set}\nThe new key is first, the old one second. Check it with `pillarbox check-config`, and restart the relays. \
                 When all of them run with it, the overlap begins: each request has both signatures."
            ),
            format!(
                "During the overlap, give each receiver the {theirs}: in place of the old key, or beside it.{other_kind} Receivers may change \
                 one after another: either key verifies each request."
            ),
            format!(
                "When every receiver has the new key, the overlap may end: remove the old key, and restart the relays.\n\n{}\n\nEach \
                 attempt is signed when it is sent, so events that wait need no old key. Then receivers remove the old key.",
                written(&secrets[..1])
            ),
        ]
    }
}

/// Returns a name as a key of TOML.
fn toml_key(name: &str) -> String {
    let is_bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if is_bare { name.to_owned() } else { format!("{name:?}") }
}
