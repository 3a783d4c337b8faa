//! The fields of a form. A request with an unknown field is refused, as one with an unknown query parameter is.

use axum::extract::rejection::FormRejection;
use axum::extract::{Form, FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use serde::de::value::{Error, MapDeserializer};

use super::known::{check_fields, names};
use super::{bad, bytes};
use crate::access::CSRF_FIELD;
use crate::refusal::Refusal;

/// The fields of a form. A misspelt filter would act on everything, so an unknown field is refused.
pub(crate) struct Filled<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Filled<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let fields = Fields::from_request(request, state).await?;
        read(fields.only(names::<T>())?).map(Self)
    }
}

/// The fields of two types together.
pub(crate) struct FilledBoth<A, B>(pub(crate) A, pub(crate) B);

impl<A: DeserializeOwned, B: DeserializeOwned, S: Send + Sync> FromRequest<S> for FilledBoth<A, B> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let fields = Fields::from_request(request, state).await?;
        let all = fields.only(&[names::<A>(), names::<B>()].concat())?;
        let (first, second) = all.into_iter().partition(|(name, _)| names::<A>().contains(&name.as_str()));
        Ok(Self(read(first)?, read(second)?))
    }
}

/// A form without fields: a button.
pub(crate) struct Unfilled;

impl<S: Send + Sync> FromRequest<S> for Unfilled {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        Fields::from_request(request, state).await?.only(&[]).map(|_| Self)
    }
}

/// The fields as they are, for a name that may come many times. The session's token is not one of them.
pub(crate) struct Fields(Vec<(String, String)>);

impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        // A script sends the session's token as a header, so its form may have no fields and no body.
        if !request.headers().contains_key(CONTENT_TYPE) {
            return match bytes(request).await?.is_empty() {
                true => Ok(Self(Vec::new())),
                false => Err(bad("the body has no Content-Type; send the fields of a form")),
            };
        }
        let unread = |error: FormRejection| {
            Refusal::new(error.status(), format!("the form cannot be read: {}", error.body_text()))
        };
        let Form(mut fields) = Form::<Vec<(String, String)>>::from_request(request, state).await.map_err(unread)?;
        fields.retain(|(name, _)| name != CSRF_FIELD);
        Ok(Self(fields))
    }
}

impl Fields {
    /// Returns the fields. One with another name is refused.
    pub(crate) fn only(self, known: &[&'static str]) -> Result<Vec<(String, String)>, Refusal> {
        check_fields(self.0.iter().map(|(name, _)| name.as_str()), known)?;
        Ok(self.0)
    }
}

/// Reads the fields, which are all text.
fn read<T: DeserializeOwned>(fields: Vec<(String, String)>) -> Result<T, Refusal> {
    let fields = MapDeserializer::<_, Error>::new(fields.into_iter());
    T::deserialize(fields).map_err(|error| bad(format!("the form is not valid: {error}")))
}
