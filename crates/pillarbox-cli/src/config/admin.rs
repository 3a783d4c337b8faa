//! `[admin]`: the address of the admin pages and the API, their users, and masked values. The hashes of passwords and
//! tokens are looked up only by the commands that serve.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use axum::http::HeaderName;
use pillarbox_admin::{ANYONE, Mask, Networks, Role, User};
use pillarbox_sinks::config::{ConfigError, FromConfig, SecretRef, Section};
use toml::Value;

use super::environment::Environment;

/// The default address of the admin.
pub(crate) const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8800);
const OFF: &str = "off";
pub(super) const ROLES: [(&str, Role); 2] = [("viewer", Role::Viewer), ("operator", Role::Operator)];
const NAME_LIMIT: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminSettings {
    pub(crate) listen: Listen,
    pub(crate) tls: Option<TlsFiles>,
    /// Names that requests may have in their Host header, besides the machine's own and the address that it listens on.
    pub(crate) hosts: Vec<String>,
    /// Whether a proxy in front of it does TLS.
    pub(crate) behind_tls_proxy: bool,
    /// Proxies whose X-Forwarded-For header is trusted.
    pub(crate) trusted_proxies: Networks,
    /// The header in which these proxies name the user that they have authenticated.
    pub(crate) user_header: Option<HeaderName>,
    /// JSON paths of values in payloads that are never shown.
    pub(crate) mask: Mask,
    pub(crate) users: Vec<UserSettings>,
}

/// The address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listen {
    /// The default address, if it is free.
    Usual,
    /// Exactly this address.
    At(SocketAddr),
    /// None, unless `pillarbox admin` runs.
    Off,
}

impl Listen {
    pub(crate) fn address(self) -> SocketAddr {
        match self {
            Self::At(address) => address,
            Self::Usual | Self::Off => USUAL,
        }
    }

    pub(super) fn shown(self) -> String {
        if self == Self::Off { OFF.to_owned() } else { self.address().to_string() }
    }
}

impl FromConfig for Listen {
    fn from_toml(value: Value) -> Result<Self, String> {
        match value.as_str() {
            Some(OFF) => Ok(Self::Off),
            _ => SocketAddr::from_toml(value).map(Self::At).map_err(|what| format!("{what}, or {OFF:?}")),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserSettings {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(super) password: Option<SecretRef>,
    pub(super) token: Option<SecretRef>,
}

impl UserSettings {
    /// Looks up the hashes. Errors never show them: a value may be the password itself by mistake.
    pub(crate) fn known(&self, environment: &Environment) -> Result<User, ConfigError> {
        let at = |key: &str, what: &str| ConfigError::new(format!("admin.users.{}.{key} {what}", self.name));
        let resolve = |key: &str, secret: &Option<SecretRef>| {
            let secret = secret.as_ref().map(|secret| secret.resolve(environment)).transpose();
            secret.map_err(|what| at(key, &what))
        };
        let mut user = User::new(self.name.clone(), self.role);
        if let Some(hash) = resolve("password", &self.password)? {
            user = user.password_hash(hash.expose()).map_err(|error| at("password", &error.to_string()))?;
        }
        if let Some(hash) = resolve("token", &self.token)? {
            user = user.token_hash(hash.expose()).map_err(|error| at("token", &error.to_string()))?;
        }
        Ok(user)
    }
}

pub(super) fn lower(mut section: Section<'_>) -> AdminSettings {
    let listen = section.take("listen").unwrap_or(Listen::Usual);
    let trusted_proxies = section.take("trusted_proxies").map(|Proxies(networks)| networks).unwrap_or_default();
    let user_header = section.take("user_header").map(|UserHeader(name)| name);
    if user_header.is_some() && trusted_proxies.is_empty() {
        section.problem("user_header", "is set without trusted_proxies; name the proxy that sends it there");
    }
    let users = lower_users(section.section("users"), user_header.is_some());
    if user_header.is_some() && users.is_empty() {
        section.problem(
            "user_header",
            "is set without users and so has no effect: every request is read-only; add [admin.users.NAME] with a role for \
             each user that the proxy names",
        );
    }
    let address = listen.address();
    if users.is_empty() && !address.ip().is_loopback() {
        section.problem(
            "listen",
            format_args!(
                "is {address}, which others can reach, and there are no users; listen on 127.0.0.1, or add \
                 [admin.users.NAME] with a password from `pillarbox admin hash-password`"
            ),
        );
    }
    let (certificate, key) = (section.take("tls_certificate"), section.take("tls_key"));
    let tls = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(TlsFiles { certificate: path(certificate), key: path(key) }),
        (Some(_), None) => {
            section.problem("tls_certificate", "is set without tls_key; set both");
            None
        }
        (None, Some(_)) => {
            section.problem("tls_key", "is set without tls_certificate; set both");
            None
        }
        (None, None) => None,
    };
    let settings = AdminSettings {
        listen,
        tls,
        hosts: section.take_checked("hosts", |hosts: &Vec<String>| host_names(hosts)).unwrap_or_default(),
        behind_tls_proxy: section.take("behind_tls_proxy").unwrap_or(false),
        trusted_proxies,
        user_header,
        mask: section.take("mask").map(|Paths(mask)| mask).unwrap_or_default(),
        users,
    };
    section.finish();
    settings
}

fn lower_users(mut section: Section<'_>, by_header: bool) -> Vec<UserSettings> {
    let mut users = Vec::new();
    for (name, mut keys) in section.named_sections() {
        if let Err(what) = user_name(&name) {
            keys.problem_here(what);
        }
        let (password, token) = (keys.take("password"), keys.take("token"));
        if password.is_none() && token.is_none() && !by_header {
            keys.problem_here(
                "has neither password nor token; make one with `pillarbox admin hash-password` or make-token",
            );
        }
        if !keys.has("role") {
            keys.problem_here("has no role; set role = \"viewer\" or \"operator\"");
        }
        let role = keys.choose("role", &ROLES);
        keys.finish();
        users.push(UserSettings { name, role: role.unwrap_or(Role::Viewer), password, token });
    }
    section.finish();
    users
}

fn user_name(name: &str) -> Result<(), String> {
    let plain = !name.trim().is_empty() && name.len() <= NAME_LIMIT && !name.chars().any(char::is_control);
    match name {
        ANYONE => Err(format!("cannot be called {ANYONE:?}: the name stands for anybody if there are no users")),
        _ if plain => Ok(()),
        _ => Err(format!("must have a name of 1 to {NAME_LIMIT} characters")),
    }
}

fn path(text: String) -> PathBuf {
    PathBuf::from(text)
}

fn host_names(hosts: &[String]) -> Result<(), String> {
    let bad = |host: &&String| host.is_empty() || host.contains([':', '/', '*', ' ']);
    match hosts.iter().find(bad) {
        Some(host) => {
            Err(format!("has {host:?}, but must be names without port and scheme, like \"outbox.example.com\""))
        }
        None => Ok(()),
    }
}

/// The value of `mask`.
struct Paths(Mask);

impl FromConfig for Paths {
    fn from_toml(value: Value) -> Result<Self, String> {
        let paths = Vec::<String>::from_toml(value)?;
        Mask::parse(&paths).map(Self).map_err(|error| format!("has {error}"))
    }
}

/// The value of `user_header`.
struct UserHeader(HeaderName);

impl FromConfig for UserHeader {
    fn from_toml(value: Value) -> Result<Self, String> {
        let name = String::from_toml(value)?;
        let usual = || format!("is {name:?}, but must be the name of a header, like \"X-Forwarded-User\"");
        name.parse().map(Self).map_err(|_| usual())
    }
}

/// The value of `trusted_proxies`.
struct Proxies(Networks);

impl FromConfig for Proxies {
    fn from_toml(value: Value) -> Result<Self, String> {
        let read = |text: String| text.trim().parse().map_err(|_| not_a_network(&text));
        Vec::<String>::from_toml(value)?.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    fn from_text(text: &str) -> Result<Self, String> {
        let all = Vec::<String>::from_text(text)?.into_iter().map(Value::String).collect();
        Self::from_toml(Value::Array(all))
    }
}

fn not_a_network(text: &str) -> String {
    format!("has {text:?}, but must be addresses or networks, like \"10.1.2.3\" or \"10.0.0.0/8\"")
}
