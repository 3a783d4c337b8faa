//! What is asked of the API, read strictly: a misspelt parameter is refused, not overlooked.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use axum::RequestExt;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use chrono::{DateTime, Utc};
use pillarbox::store::{Cursor, State, Turn};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::admin::desk::{MOST, Wanted, ago};
use crate::admin::refusal::Refusal;

/// An event's payload may have a megabyte; escapes and the rest need room too.
pub(super) const BODY_LIMIT: usize = 2 << 20;
const USUAL_LIMIT: usize = 50;
/// The window of dead letters.
const USUAL_HOURS: u32 = 7 * 24;

/// The parameters of an address.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let query = Query::from_request_parts(parts, state).await;
        let Query(asked) =
            query.map_err(|error| bad(format!("the parameters are not understood: {}", error.body_text())))?;
        Ok(Self(asked))
    }
}

/// A part of the address: an id or a name.
pub(super) struct At<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for At<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path = Path::from_request_parts(parts, state).await;
        let Path(at) = path.map_err(|error| bad(format!("the address is not understood: {}", error.body_text())))?;
        Ok(Self(at))
    }
}

/// A body of JSON.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        if !is_json(request.headers()) {
            let what = "the body must be JSON; say so with \"Content-Type: application/json\"";
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
        }
        let bytes: Bytes = request.extract().await.map_err(|error: BytesRejection| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {BODY_LIMIT} bytes"))
            }
            _ => bad(format!("the body cannot be read: {}", error.body_text())),
        })?;
        let not_understood = |error| bad(format!("the body is not understood: {error}"));
        serde_json::from_slice(&bytes).map(|Object(body)| Self(body)).map_err(not_understood)
    }
}

/// An object, and no list of what would stand in it.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        object(deserializer).map(Self)
    }
}

/// For fields that are objects themselves.
pub(super) fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Read<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }
    deserializer.deserialize_map(Read(PhantomData))
}

/// For fields that may be objects.
pub(super) fn maybe_object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(to: D) -> Result<Option<T>, D::Error> {
    Option::<Object<T>>::deserialize(to).map(|object| object.map(|Object(object)| object))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

pub(super) fn bad(what: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, what.into())
}

/// Where an event is
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum StateName {
    Pending,
    Due,
    Scheduled,
    Sending,
    Parked,
    Delivered,
    Failed,
}

impl From<StateName> for State {
    fn from(name: StateName) -> Self {
        match name {
            StateName::Pending => Self::Pending,
            StateName::Due => Self::Due,
            StateName::Scheduled => Self::Scheduled,
            StateName::Sending => Self::Sending,
            StateName::Parked => Self::Parked,
            StateName::Delivered => Self::Delivered,
            StateName::Failed => Self::Failed,
        }
    }
}

impl From<State> for StateName {
    fn from(state: State) -> Self {
        match state {
            State::Pending => Self::Pending,
            State::Due => Self::Due,
            State::Scheduled => Self::Scheduled,
            State::Sending => Self::Sending,
            State::Parked => Self::Parked,
            State::Delivered => Self::Delivered,
            State::Failed => Self::Failed,
        }
    }
}

/// Which events; each field that is set narrows it
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Narrowed {
    state: Option<StateName>,
    /// `*` stands for anything: `order.*`
    event_type: Option<String>,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    /// Waits for this destination, or `unrouted`
    parked_on: Option<String>,
    /// Routed to this destination, or failed on it
    destination: Option<String>,
    /// Part of its id, type, aggregate, key or error, whatever the case
    search: Option<String>,
    /// Emitted at or after
    since: Option<DateTime<Utc>>,
    /// Emitted before
    until: Option<DateTime<Utc>>,
    /// Failed at or after: the `since` of `/dead-letters`. Only dead letters match
    failed_since: Option<DateTime<Utc>>,
}

impl Narrowed {
    /// With the window that `/dead-letters` has by itself, unless another one is given.
    pub(super) fn of_a_group(self) -> Self {
        let usual = || ago(Duration::from_secs(u64::from(USUAL_HOURS) * 3600));
        Self { failed_since: self.failed_since.or_else(|| Some(usual())), ..self }
    }

    pub(super) fn wanted(self) -> Result<Wanted, Refusal> {
        Ok(Wanted {
            state: self.state.map(State::from),
            event_type: storable("event_type", self.event_type)?,
            aggregate_type: storable("aggregate_type", self.aggregate_type)?,
            aggregate_id: storable("aggregate_id", self.aggregate_id)?,
            parked_on: storable("parked_on", self.parked_on)?,
            destination: storable("destination", self.destination)?,
            search: storable("search", self.search)?,
            since: self.since,
            until: self.until,
            failed_since: self.failed_since,
        })
    }
}

/// What no database has in its texts is not looked for.
pub(super) fn storable(name: &str, text: Option<String>) -> Result<Option<String>, Refusal> {
    match text {
        Some(text) if text.contains('\0') => Err(bad(format!("{name} contains a NUL character; remove it"))),
        text => Ok(text),
    }
}

/// A page of events. Parameters that are left out do not narrow it
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsAsked {
    /// Where it is
    #[param(inline)]
    state: Option<StateName>,
    /// `*` stands for anything: `order.*`
    event_type: Option<String>,
    /// Exactly this
    aggregate_type: Option<String>,
    /// Exactly this
    aggregate_id: Option<String>,
    /// Waits for this destination, or `unrouted`
    parked_on: Option<String>,
    /// Routed to this destination, or failed on it
    destination: Option<String>,
    /// Part of its id, type, aggregate, key or error, whatever the case
    search: Option<String>,
    /// Emitted at or after
    since: Option<DateTime<Utc>>,
    /// Emitted before
    until: Option<DateTime<Utc>>,
    /// Failed at or after. Only dead letters match
    failed_since: Option<DateTime<Utc>>,
    /// The `next` of the page before
    cursor: Option<String>,
    /// Events of a page at most; 50 without it
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// Otherwise the newest
    oldest_first: Option<bool>,
}

impl EventsAsked {
    pub(super) fn lowered(self) -> Result<(Wanted, Turn), Refusal> {
        let after = self.cursor.map(|cursor| cursor.parse::<Cursor>().map_err(|error| bad(error.to_string())));
        let turn = Turn {
            after: after.transpose()?,
            limit: limit(self.limit)?,
            oldest_first: self.oldest_first.unwrap_or(false),
        };
        let narrowed = Narrowed {
            state: self.state,
            event_type: self.event_type,
            aggregate_type: self.aggregate_type,
            aggregate_id: self.aggregate_id,
            parked_on: self.parked_on,
            destination: self.destination,
            search: self.search,
            since: self.since,
            until: self.until,
            failed_since: self.failed_since,
        };
        Ok((narrowed.wanted()?, turn))
    }
}

/// Dead letters. Parameters that are left out do not narrow it
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct DeadLettersAsked {
    /// `*` stands for anything: `order.*`
    event_type: Option<String>,
    /// Exactly this
    aggregate_type: Option<String>,
    /// Exactly this
    aggregate_id: Option<String>,
    /// Routed to this destination, or failed on it
    destination: Option<String>,
    /// Part of its id, type, aggregate, key or error, whatever the case
    search: Option<String>,
    /// How far to look back; 168 without it
    #[param(minimum = 1, maximum = 8760)]
    hours: Option<u32>,
}

impl DeadLettersAsked {
    pub(super) fn lowered(self) -> Result<(Wanted, u32), Refusal> {
        let narrowed = Narrowed {
            event_type: self.event_type,
            aggregate_type: self.aggregate_type,
            aggregate_id: self.aggregate_id,
            destination: self.destination,
            search: self.search,
            ..Narrowed::default()
        };
        Ok((narrowed.wanted()?, within("hours", self.hours, USUAL_HOURS, 365 * 24)?))
    }
}

/// Of how long
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct WindowAsked {
    /// How far to look back; 60 without it
    #[param(minimum = 1, maximum = 1440)]
    minutes: Option<u32>,
}

impl WindowAsked {
    pub(super) fn minutes(&self) -> Result<u32, Refusal> {
        within("minutes", self.minutes, 60, 24 * 60)
    }
}

/// What to find
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct FindAsked {
    /// An id, an idempotency key or an aggregate id, exactly
    #[param(min_length = 1)]
    pub(super) q: String,
}

/// A page of the audit
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditAsked {
    /// The `next` of the page before
    pub(super) before: Option<i64>,
    /// Lines of a page at most; 50 without it
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

impl AuditAsked {
    pub(super) fn limit(&self) -> Result<usize, Refusal> {
        limit(self.limit)
    }
}

fn limit(given: Option<usize>) -> Result<usize, Refusal> {
    match given {
        None => Ok(USUAL_LIMIT),
        Some(limit @ 1..=MOST) => Ok(limit),
        Some(limit) => Err(bad(format!("limit is {limit}, but must be from 1 to {MOST}"))),
    }
}

fn within(name: &str, given: Option<u32>, usual: u32, most: u32) -> Result<u32, Refusal> {
    match given.unwrap_or(usual) {
        number if (1..=most).contains(&number) => Ok(number),
        number => Err(bad(format!("{name} is {number}, but must be from 1 to {most}"))),
    }
}
