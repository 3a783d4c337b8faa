//! The admin: pages for people and an API for programs, behind one door. What they show and do they have from the desk;
//! who may come in is said in [`access`]. No SQL, and no store but through the desk.

use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use tokio::net::TcpListener;

use self::access::Access;
use self::desk::Desk;
use self::refusal::Refusal;
use crate::config::Environment;
use crate::config::admin::{AdminSettings, Listen};
use crate::door::{Door, Serving, Tls};

/// More than a team looks with.
const CONNECTIONS: usize = 512;

pub(crate) mod access;
mod api;
mod assets;
pub(crate) mod desk;
mod pages;
pub(crate) mod refusal;
mod theme;

/// How much it matters that the admin is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Insistence {
    /// `pillarbox admin`: that is all it is for.
    Always,
    /// Beside a relay: where it was asked for, or at the usual place if that is free.
    Beside,
}

/// The pages and the API.
pub(crate) fn routes(desk: &Arc<Desk>) -> Router {
    pages::routes(desk).merge(api::routes(desk))
}

/// Everything that is served: `routes` are those of the pages and of the API, which say themselves what they need by
/// [`access::Viewer`] and [`access::Operator`].
fn behind_the_door(access: &Arc<Access>, routes: Router) -> Router {
    routes
        .merge(access::login::routes(Arc::clone(access)))
        .merge(assets::routes())
        .fallback(async || Refusal::new(StatusCode::NOT_FOUND, "there is nothing here; the address may be mistyped"))
        .layer(from_fn_with_state(Arc::clone(access), access::guard))
}

/// Listens, and serves until the answer is dropped. `None` when there is nobody to serve it for.
pub(crate) async fn serve(
    settings: &AdminSettings,
    environment: &Environment,
    insistence: Insistence,
    routes: Router,
) -> anyhow::Result<Option<Serving>> {
    let beside = insistence == Insistence::Beside;
    if beside && settings.listen == Listen::Off {
        return Ok(None);
    }
    let tls = settings.tls.as_ref().map(Tls::read).transpose()?;
    let address = settings.listen.address();
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) if beside && settings.listen == Listen::Usual => {
            tracing::warn!(
                %address, %error,
                "the admin pages are not served: nobody can listen there; set admin.listen to another port, or to \"off\""
            );
            return Ok(None);
        }
        Err(error) => {
            return Err(error).with_context(|| {
                format!("admin.listen: {address} cannot be listened on; choose another port or address")
            });
        }
    };
    let address = listener.local_addr()?;
    let access = Arc::new(Access::new(settings, environment, address)?);
    let scheme = if tls.is_some() { "https" } else { "http" };
    tracing::info!(address = %format_args!("{scheme}://{address}"), users = settings.users.len(), "the admin is served");
    let (routes, proxies) = (behind_the_door(&access, routes), settings.trusted_proxies.clone());
    let door = Door::new("admin", listener, CONNECTIONS).with_tls(tls);
    let door = door.shared(move |address| proxies.contain(address));
    Ok(Some(door.open(routes)))
}
