//! The comparison of two versions of a schema: whether every payload that one allows is allowed by the other. It only says so when
//! it has a proof. It knows no files.
//!
//! [`Proof`] goes through both schemas together. [`Writer`] is what a payload's schema promises; each keyword of the reader's schema
//! must follow from that.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jsonschema::canonical::{self, Containment};
use serde::Serialize;
use serde_json::Value;

use self::proof::{Proof, Side};
use super::InvalidSchema;

mod arrays;
mod choices;
mod keywords;
mod objects;
mod proof;
mod writer;

/// The direction of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A consumer with NEW can read what was written with OLD.
    Backward,
    /// A consumer with OLD can read what is written with NEW.
    Forward,
    /// Both.
    Full,
}

impl Mode {
    fn directions(self) -> &'static [Self] {
        match self {
            Self::Backward => &[Self::Backward],
            Self::Forward => &[Self::Forward],
            Self::Full => &[Self::Backward, Self::Forward],
        }
    }
}

/// A place where a payload that one version allows may be refused by the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// [`Mode::Backward`] or [`Mode::Forward`].
    pub direction: Mode,
    /// The place in the consumer's schema: NEW for backward, OLD for forward.
    pub path: String,
    /// What differs.
    pub what: String,
    /// Whether it is a certain difference. If not, the comparison cannot tell.
    pub certain: bool,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The places that are incompatible, or that the comparison cannot judge.
    pub differences: Vec<Difference>,
}

impl Comparison {
    /// Returns whether every payload of one version is proven to be valid under the other.
    #[must_use]
    pub fn is_compatible(&self) -> bool {
        self.differences.is_empty()
    }
}

/// Compares two versions of a schema (draft 2020-12).
///
/// With `declared_only`, payloads are assumed to have no property that their own schema neither declares nor requires. Without
/// it, a schema that does not set `additionalProperties` to false allows any value there, so that a new optional property is
/// incompatible.
///
/// # Errors
/// If one of them is no valid schema. It is called OLD or NEW.
pub fn compare(old: &Value, new: &Value, mode: Mode, declared_only: bool) -> Result<Comparison, InvalidSchema> {
    let (old, new) = (Side::new("OLD", old)?, Side::new("NEW", new)?);
    let mut differences = Vec::new();
    for direction in mode.directions() {
        let (writer, reader) = if *direction == Mode::Backward { (&old, &new) } else { (&new, &old) };
        let mut found = Proof::new(writer, reader, *direction, declared_only).differences();
        if !declared_only && !found.is_empty() && found.iter().all(|difference| !difference.certain) {
            match contains(reader.root, writer.root) {
                Containment::Yes => found.clear(),
                Containment::No => found.iter_mut().for_each(|difference| difference.certain = true),
                Containment::Unknown => {}
            }
        }
        differences.extend(found);
    }
    Ok(Comparison { differences })
}

/// Asks the crate `jsonschema` for a second proof. It is asked only where [`Proof`] cannot tell. The relay does not check `format`,
/// and a consumer may: the answer must be the same for both.
fn contains(reader: &Value, writer: &Value) -> Containment {
    let asked = |formats| {
        let canonical =
            |schema| canonical::options().offline().should_validate_formats(formats).canonicalize(schema).ok();
        let answer = || canonical(reader)?.covers(&canonical(writer)?).ok();
        catch_unwind(AssertUnwindSafe(answer)).ok().flatten().unwrap_or(Containment::Unknown)
    };
    match (asked(true), asked(false)) {
        (Containment::Yes, Containment::Yes) => Containment::Yes,
        (Containment::No, Containment::No) => Containment::No,
        _ => Containment::Unknown,
    }
}

#[cfg(test)]
mod tests;
