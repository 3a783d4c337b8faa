//! Secrets as they are written: `env:NAME`, `file:PATH`, or plain. They are looked up only by the commands that send,
//! so that a host that only emits needs none of them.

use std::path::PathBuf;

use pillarbox_sinks::Secret;
use toml::Value;

use super::environment::Environment;
use super::value::FromConfig;

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SecretRef {
    Plain(Secret),
    Env(String),
    File(PathBuf),
}

impl SecretRef {
    pub(super) fn parse(text: &str) -> Self {
        if let Some(name) = text.strip_prefix("env:") {
            Self::Env(name.to_owned())
        } else if let Some(path) = text.strip_prefix("file:") {
            Self::File(PathBuf::from(path))
        } else {
            Self::Plain(Secret::new(text))
        }
    }

    /// The secret itself. The error says where it was looked for, and goes on after the key's name.
    pub(super) fn resolve(&self, environment: &Environment) -> Result<Secret, String> {
        match self {
            Self::Plain(secret) => Ok(secret.clone()),
            Self::Env(name) => match environment.get(name) {
                None => Err(format!("is env:{name}, but the environment variable {name} is not set; set it")),
                Some("") => Err(format!("is env:{name}, but the environment variable {name} is empty; set it")),
                Some(text) => Ok(Secret::new(text)),
            },
            Self::File(path) => {
                let file = path.display();
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("is file:{file}, which cannot be read: {error}"))?;
                match text.trim_end_matches(['\r', '\n']) {
                    "" => Err(format!("is file:{file}, which is empty; write the secret into it")),
                    text => Ok(Secret::new(text)),
                }
            }
        }
    }

    /// For people: where it is, and nothing of what it is.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Plain(_) => "***".to_owned(),
            Self::Env(name) => format!("*** (env:{name})"),
            Self::File(path) => format!("*** (file:{})", path.display()),
        }
    }
}

impl FromConfig for SecretRef {
    fn from_toml(value: Value) -> Result<Self, String> {
        String::from_toml(value).map(|text| Self::parse(&text))
    }
}
