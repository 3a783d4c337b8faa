//! Extractors for the parts of a request: path, query, form and body. Pages and API use them, and refuse a misspelt parameter
//! or field instead of ignoring it.

use std::fmt;
use std::marker::PhantomData;

use axum::RequestExt;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use pillarbox::store::Cursor;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

pub(crate) use self::filter::{FilterAsked, StateName, moment, state};
pub(crate) use self::form::{Fields, Filled, FilledBoth, Unfilled};
pub(crate) use self::known::{no_parameters, refuse_unknown};
use crate::refusal::{Refusal, ToApi};

mod filter;
mod form;
mod known;

/// The largest body. An event's payload may have a megabyte; escapes and the other fields need room too.
pub(crate) const BODY_LIMIT: usize = 2 << 20;
/// The default window of dead letters, and the longest, in hours.
pub(crate) const WINDOW_HOURS: u32 = 7 * 24;
const LONGEST_HOURS: u32 = 365 * 24;

/// The query parameters. An unknown one is refused, because a misspelt filter would show everything.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        known::check(parts, &[known::names::<T>()])?;
        Ok(Self(query(parts)?))
    }
}

/// The query parameters of two types together.
pub(crate) struct AskedBoth<A, B>(pub(crate) A, pub(crate) B);

impl<A: DeserializeOwned, B: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for AskedBoth<A, B> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        known::check(parts, &[known::names::<A>(), known::names::<B>()])?;
        Ok(Self(query(parts)?, query(parts)?))
    }
}

/// The query parameters as they are, for a name that may come many times.
pub(crate) struct Pairs(Parts);

impl<S: Send + Sync> FromRequestParts<S> for Pairs {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        Ok(Self(parts.clone()))
    }
}

impl Pairs {
    /// Returns the parameters. One with another name is refused.
    pub(crate) fn only(&self, names: &[&'static str]) -> Result<Vec<(String, String)>, Refusal> {
        known::check(&self.0, &[names])?;
        query(&self.0)
    }
}

fn query<T: DeserializeOwned>(parts: &Parts) -> Result<T, Refusal> {
    let query = Query::try_from_uri(&parts.uri);
    query.map(|Query(asked)| asked).map_err(|error| bad(format!("the parameters are not valid: {}", error.body_text())))
}

/// A part of the path: an id or a name.
pub(crate) struct At<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for At<T> {
    type Rejection = Refusal;

    /// Reads the part. A wrong id is a bad request in the API, and a missing page for people.
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let api = parts.extensions.get::<ToApi>().is_some();
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(at)| Self(at)).map_err(|error| match api {
            true => bad(format!("the path is not valid: {}", error.body_text())),
            false => {
                Refusal::new(StatusCode::NOT_FOUND, "nothing was found at this address; check it for typing errors")
            }
        })
    }
}

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        if !is_json(request.headers()) {
            return Err(not_json());
        }
        parsed(&bytes(request).await?).map(Self)
    }
}

/// A JSON body that may be missing or `null`.
pub(crate) struct MaybeBody<T>(pub(crate) Option<T>);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for MaybeBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let json = is_json(request.headers());
        let bytes = bytes(request).await?;
        match bytes.trim_ascii() {
            b"" | b"null" => Ok(Self(None)),
            _ if !json => Err(not_json()),
            text => parsed(text).map(|body| Self(Some(body))),
        }
    }
}

fn not_json() -> Refusal {
    let what = "the body must be JSON; send the header \"Content-Type: application/json\"";
    Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what)
}

async fn bytes(request: Request) -> Result<Bytes, Refusal> {
    request.extract().await.map_err(|error: BytesRejection| match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {BODY_LIMIT} bytes"))
        }
        _ => bad(format!("the body cannot be read: {}", error.body_text())),
    })
}

fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let not_understood = |error| bad(format!("the body is not valid: {error}"));
    serde_json::from_slice(bytes).map(|Object(body)| body).map_err(not_understood)
}

/// Reads an object only, and no list of its fields' values.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        object(deserializer).map(Self)
    }
}

/// Reads a field that must be an object.
pub(crate) fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
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

/// Reads a field that may be an object.
pub(crate) fn maybe_object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(to: D) -> Result<Option<T>, D::Error> {
    Option::<Object<T>>::deserialize(to).map(|object| object.map(|Object(object)| object))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

pub(crate) fn bad(what: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, what.into())
}

/// Refuses text that no database can store.
pub(crate) fn storable(name: &str, text: Option<String>) -> Result<Option<String>, Refusal> {
    match text {
        Some(text) if text.contains('\0') => Err(bad(format!("{name} contains a NUL character; remove it"))),
        text => Ok(text),
    }
}

/// Reads the cursor after which a page begins.
pub(crate) fn cursor(text: &str) -> Result<Cursor, Refusal> {
    text.parse().map_err(|error: pillarbox::store::BadCursor| bad(error.to_string()))
}

pub(crate) fn hours(given: u32) -> Result<u32, Refusal> {
    within("hours", given, LONGEST_HOURS)
}

pub(crate) fn within(name: &str, number: u32, most: u32) -> Result<u32, Refusal> {
    match number {
        number if (1..=most).contains(&number) => Ok(number),
        number => Err(bad(format!("{name} is {number}, but must be from 1 to {most}"))),
    }
}
