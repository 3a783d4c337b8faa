//! Secrets as they are configured: `env:NAME`, `file:PATH`, or plain. They are looked up only when a sink is built, so a
//! host that only emits needs none of them.

use std::path::PathBuf;

use toml::Value;

use super::resolver::Resolver;
use super::value::FromConfig;
use crate::Secret;

/// The place of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretRef {
    /// In the configuration itself.
    Plain(Secret),
    /// In an environment variable.
    Env(String),
    /// In a file. A line break at its end does not count.
    File(PathBuf),
}

impl SecretRef {
    /// Reads `env:NAME` and `file:PATH`; any other text is the secret itself.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if let Some(name) = text.strip_prefix("env:") {
            Self::Env(name.to_owned())
        } else if let Some(path) = text.strip_prefix("file:") {
            Self::File(PathBuf::from(path))
        } else {
            Self::Plain(Secret::new(text))
        }
    }

    /// Returns the secret itself.
    ///
    /// # Errors
    /// Says where the secret was searched and why it was not found. The text continues a sentence that begins with the
    /// key's name.
    pub fn resolve(&self, resolver: &dyn Resolver) -> Result<Secret, String> {
        match self {
            Self::Plain(secret) => Ok(secret.clone()),
            Self::Env(name) => match resolver.variable(name) {
                None => Err(format!("is env:{name}, but the environment variable {name} is not set; set it")),
                Some(text) if text.is_empty() => {
                    Err(format!("is env:{name}, but the environment variable {name} is empty; set it"))
                }
                Some(text) => Ok(Secret::new(text)),
            },
            Self::File(path) => {
                let file = path.display();
                let bytes =
                    resolver.read(path).map_err(|error| format!("is file:{file}, which cannot be read: {error}"))?;
                let text = String::from_utf8(bytes).map_err(|_| format!("is file:{file}, which is not UTF-8 text"))?;
                match text.trim_end_matches(['\r', '\n']) {
                    "" => Err(format!("is file:{file}, which is empty; write the secret into it")),
                    text => Ok(Secret::new(text)),
                }
            }
        }
    }

    /// Returns the place as the configuration names it: `env:NAME` or `file:PATH`. `None` if the configuration has the secret itself.
    #[must_use]
    pub fn written(&self) -> Option<String> {
        match self {
            Self::Plain(_) => None,
            Self::Env(name) => Some(format!("env:{name}")),
            Self::File(path) => Some(format!("file:{}", path.display())),
        }
    }

    /// Returns where the secret is, for people: `*** (env:TOKEN)`.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Plain(_) => "***".to_owned(),
            Self::Env(name) => format!("*** (env:{name})"),
            Self::File(path) => format!("*** (file:{})", path.display()),
        }
    }

    /// Returns a URL for people. `redact`, a function of [`crate::redact`], removes the secrets from a URL that is in the
    /// configuration itself.
    #[must_use]
    pub fn shown_url(&self, redact: fn(&str) -> String) -> String {
        match self {
            Self::Plain(url) => redact(url.expose()),
            elsewhere => elsewhere.shown(),
        }
    }

    /// Returns the secret's replacement in a shell command: the variable that holds it, or `***`.
    #[must_use]
    pub fn in_shell(&self) -> String {
        let is_name =
            |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match self {
            Self::Env(name) if is_name(name) => format!("${name}"),
            _ => "***".to_owned(),
        }
    }
}

impl FromConfig for SecretRef {
    fn from_toml(value: Value) -> Result<Self, String> {
        String::from_toml(value).map(|text| Self::parse(&text))
    }
}
