//! The names of query parameters and of fields of forms: a request with an unknown one is refused, and the response lists the
//! names that exist.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::{Query, Request};
use axum::http::Uri;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;

use super::bad;
use crate::refusal::{Refusal, ToApi};

/// The parameter of a redirect after an action: every page shows its notice.
const DID: &str = "did";

/// Whether an extractor has read the parameters.
#[derive(Debug, Clone, Default)]
struct Read(Arc<AtomicBool>);

/// Refuses requests with parameters that no extractor has checked. It looks after the handler has run, so handlers that act
/// check before: [`no_parameters`].
pub(crate) async fn refuse_unknown(mut request: Request, next: Next) -> Response {
    let api = request.extensions().get::<ToApi>().is_some();
    let given = given(request.uri(), api);
    if given.is_empty() {
        return next.run(request).await;
    }
    let read = Read::default();
    request.extensions_mut().insert(read.clone());
    let response = next.run(request).await;
    let failed = response.status().is_client_error() || response.status().is_server_error();
    if failed || read.0.load(Ordering::Relaxed) {
        response
    } else {
        unknown("parameter", &given[0], &[]).into_response()
    }
}

/// Refuses every parameter.
pub(crate) fn no_parameters(parts: &Parts) -> Result<(), Refusal> {
    check(parts, &[])
}

/// Refuses names that are not among the known ones.
pub(super) fn check(parts: &Parts, known: &[&[&'static str]]) -> Result<(), Refusal> {
    if let Some(read) = parts.extensions.get::<Read>() {
        read.0.store(true, Ordering::Relaxed);
    }
    let known = known.concat();
    let given = given(&parts.uri, parts.extensions.get::<ToApi>().is_some());
    match given.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(unknown("parameter", name, &known)),
        None => Ok(()),
    }
}

/// Refuses fields of a form that are not among the known ones.
pub(super) fn check_fields<'a>(mut given: impl Iterator<Item = &'a str>, known: &[&str]) -> Result<(), Refusal> {
    given.find(|name| !known.contains(name)).map_or(Ok(()), |name| Err(unknown("field", name, known)))
}

/// Returns the names of the request, without the one that all pages know.
fn given(uri: &Uri, api: bool) -> Vec<String> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri).map(|Query(pairs)| pairs).unwrap_or_default();
    pairs.into_iter().map(|(name, _)| name).filter(|name| api || name != DID).collect()
}

fn unknown(thing: &str, name: &str, known: &[&str]) -> Refusal {
    let mut text = format!("there is no {thing} {name:?} here; ");
    let _ = match known {
        [] => write!(text, "this address takes none"),
        known => write!(text, "choose from: {}", known.join(", ")),
    };
    bad(text)
}

/// Returns the names of the fields of a type. A type that is flattened has no names of its own.
pub(super) fn names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    let read = T::deserialize(Names(&mut names));
    debug_assert!(read.is_err(), "the names alone are no value");
    names
}

/// Reads nothing but the names of the fields that a struct asks for.
struct Names<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom("only the names are wanted"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("no struct"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only its names are read")]
    struct Shelf {
        state: Option<String>,
        #[serde(default)]
        limit: u32,
    }

    fn parts(uri: &str) -> Parts {
        Request::builder().uri(uri).body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_fields_of_a_type_are_the_names() {
        assert_eq!(names::<Shelf>(), ["state", "limit"]);
        assert!(names::<Vec<String>>().is_empty());
    }

    #[test]
    fn an_unknown_name_is_refused_and_the_known_ones_are_listed() {
        let checked = |uri: &str| check(&parts(uri), &[names::<Shelf>(), &["cursor"]]);
        for fine in ["/events", "/events?state=failed&limit=3&cursor=x", "/events?limit=3&did=retry"] {
            assert!(checked(fine).is_ok(), "{fine}");
        }
        for wrong in ["/events?stat=failed", "/events?state=failed&Limit=3", "/events?%00=1", "/events?=1"] {
            let refusal = format!("{:?}", checked(wrong).unwrap_err());
            assert!(refusal.contains("choose from: state, limit, cursor"), "{refusal}");
        }
        let mut to_api = parts("/events?did=retry");
        to_api.extensions.insert(ToApi);
        assert!(check(&to_api, &[names::<Shelf>()]).is_err());
    }
}
