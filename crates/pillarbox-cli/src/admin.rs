//! The program's admin: builds the desk and the router of `pillarbox-admin` from the configuration, and listens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use pillarbox::OnDelivered;
use pillarbox::store::AdminStore;
use pillarbox_admin::desk::{Kept, RequestText, Tester};
use pillarbox_admin::{Admin, Desk, DestinationInfo, Mask, User};
use pillarbox_sinks::DestinationSettings;
use pillarbox_sinks::config::ConfigError;
use tokio::net::TcpListener;

use crate::config::admin::{AdminSettings, Listen, UserSettings};
use crate::config::destination::build;
use crate::config::{Environment, Settings};
use crate::curl;
use crate::door::{Door, Serving, Tls};

/// The maximum number of connections: more than a team needs.
const CONNECTIONS: usize = 512;

/// The timeout of a test event from a page: shorter than that of the request.
const LONGEST_TEST: Duration = Duration::from_secs(45);

/// How strictly the admin must be served.
pub(crate) enum Insistence {
    /// `pillarbox admin`: it must be served.
    Always,
    /// Beside a relay: at the configured address, or at the default address if that is free.
    Beside,
    /// `pillarbox dev`: on a listener that is already bound.
    Bound(std::net::TcpListener),
}

/// Returns the desk that the configuration describes, for commands.
pub(crate) fn desk(store: Arc<dyn AdminStore>, settings: &Settings) -> Desk {
    built(store, settings, destinations(settings))
}

/// As [`desk`], for pages and API: it can also send test events.
pub(crate) fn desk_that_tests(store: Arc<dyn AdminStore>, settings: &Settings, environment: &Environment) -> Desk {
    let environment = Arc::new(environment.clone());
    let mut described = destinations(settings);
    for (info, destination) in described.iter_mut().zip(&settings.destinations) {
        info.test = tester(destination, &environment, &settings.admin.mask);
    }
    built(store, settings, described)
}

/// Returns what builds a destination for its test events, with a client of its own. `None` if it takes none.
fn tester(destination: &DestinationSettings, environment: &Arc<Environment>, mask: &Mask) -> Option<Tester> {
    if destination.untestable().is_some() {
        return None;
    }
    let (destination, environment, mask) = (destination.clone(), Arc::clone(environment), mask.clone());
    Some(Tester::new(move || {
        let built = build(&destination, &environment, &mask).map_err(|error| error.to_string())?;
        Ok(built.timeout(destination.timeout.min(LONGEST_TEST)))
    }))
}

fn built(store: Arc<dyn AdminStore>, settings: &Settings, destinations: Vec<DestinationInfo>) -> Desk {
    Desk::builder(store)
        .destinations(destinations)
        .routes(settings.routes.clone())
        .mask(settings.admin.mask.clone())
        .kept(kept(settings))
        .build()
}

/// Returns how long the relay of this configuration keeps delivered events; `None` if it never deletes them.
fn kept(settings: &Settings) -> Option<Kept> {
    match settings.relay.on_delivered {
        OnDelivered::Delete => Some(Kept::UntilDelivered),
        OnDelivered::Keep => settings.relay.cleanup_every.map(|_| Kept::For(settings.relay.retention.delivered_after)),
    }
}

/// Returns the destinations of the configuration, without secrets.
pub(crate) fn destinations(settings: &Settings) -> Vec<DestinationInfo> {
    settings.destinations.iter().map(described).collect()
}

fn described(destination: &DestinationSettings) -> DestinationInfo {
    let mut info = DestinationInfo::new(destination.name.clone(), destination.kind());
    info.address = destination.shown_address();
    info.timeout = Some(destination.timeout);
    info.concurrency = Some(destination.concurrency);
    info.rate = destination.rate;
    info.paused = destination.paused;
    let settings = destination.clone();
    info.request = Some(RequestText::new(move |detail| curl::command(detail, &settings)));
    info
}

/// Returns the users of the configuration, with the hashes of their passwords and tokens.
fn users(settings: &[UserSettings], environment: &Environment) -> Result<Vec<User>, ConfigError> {
    settings.iter().map(|user| user.known(environment)).collect()
}

/// Serves the admin until the returned value is dropped. `None` if the admin is off, or if the default address is in use.
pub(crate) async fn serve(
    settings: &AdminSettings,
    environment: &Environment,
    insistence: Insistence,
    desk: Desk,
) -> anyhow::Result<Option<Serving>> {
    let Some(listener) = listener(settings.listen, insistence).await? else { return Ok(None) };
    let tls = settings.tls.as_ref().map(Tls::read).transpose()?;
    let address = listener.local_addr()?;
    let admin = Admin::new(Arc::new(desk))
        .users(users(&settings.users, environment)?)
        .hosts(settings.hosts.clone())
        .listen(address)
        .secure_cookies(settings.tls.is_some() || settings.behind_tls_proxy)
        .trusted_proxies(settings.trusted_proxies.clone())
        .user_header(settings.user_header.clone());
    let scheme = if tls.is_some() { "https" } else { "http" };
    tracing::info!(address = %format_args!("{scheme}://{address}"), users = settings.users.len(), "admin is served");
    let proxies = settings.trusted_proxies.clone();
    let door = Door::new("admin", listener, CONNECTIONS).with_tls(tls);
    let door = door.shared(move |address| proxies.contain(address));
    Ok(Some(door.open(admin.router())))
}

/// Returns the listener. `None` if the admin is off, or if the default address is in use.
async fn listener(listen: Listen, insistence: Insistence) -> anyhow::Result<Option<TcpListener>> {
    let beside = match insistence {
        Insistence::Bound(listener) => {
            listener.set_nonblocking(true)?;
            return Ok(Some(TcpListener::from_std(listener)?));
        }
        Insistence::Beside if listen == Listen::Off => return Ok(None),
        Insistence::Beside => true,
        Insistence::Always => false,
    };
    let address = listen.address();
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if beside && listen == Listen::Usual => {
            tracing::warn!(
                %address, %error,
                "admin not served: listening failed; set admin.listen to another port, or to \"off\""
            );
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| taken(address)),
    }
}

/// Returns the text of an address that cannot be listened on.
pub(crate) fn taken(address: SocketAddr) -> String {
    format!("admin.listen: listening on {address} failed; choose another port or address")
}
