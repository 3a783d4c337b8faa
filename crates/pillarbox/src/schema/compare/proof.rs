//! The proof: goes through the reader's schema, and proves each keyword from what the writer's schema promises.

use std::cell::Cell;

use jsonschema::ValidatorMap;
use serde_json::Value;

use super::writer::{Object, Writer, address};
use super::{Difference, Mode};
use crate::schema::{InvalidSchema, compile, options};

/// The most steps of a proof. Real schemas need some hundreds.
const STEPS: usize = 50_000;
const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// One of the two schemas.
pub(super) struct Side<'a> {
    pub(super) name: &'static str,
    pub(super) root: &'a Value,
    /// Without `format`, as the relay validates, and with it, as a consumer may.
    validators: [ValidatorMap; 2],
}

/// Whether a schema allows a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Validity {
    Valid,
    Invalid,
    /// It depends on whether `format` is checked.
    ByFormat,
}

impl<'a> Side<'a> {
    pub(super) fn new(name: &'static str, root: &'a Value) -> Result<Self, InvalidSchema> {
        let invalid = |what| InvalidSchema { name: name.to_owned(), what };
        compile(root).map_err(invalid)?;
        let validators = |formats| {
            let map = options().should_validate_formats(formats).build_map(root);
            map.map_err(|error| invalid(error.to_string()))
        };
        Ok(Self { name, root, validators: [validators(false)?, validators(true)?] })
    }

    fn is_comparable(&self) -> bool {
        let draft = self.root.get("$schema").and_then(Value::as_str);
        draft.is_none_or(|draft| draft.trim_end_matches('#') == DRAFT)
    }

    /// Returns the schema that an object's `$ref` names. `None` if it has none, or one that is not a pointer into this file.
    pub(super) fn target_of(&self, object: &Object) -> Option<&'a Value> {
        self.resolve(object.get("$ref")?.as_str()?)
    }

    fn resolve(&self, reference: &str) -> Option<&'a Value> {
        // A percent sign is an escape, and a name without a slash is an anchor.
        let pointer = reference.strip_prefix('#').filter(|pointer| !pointer.contains('%'))?;
        self.root.pointer(pointer)
    }

    /// Returns whether the schema at this place allows a value. `None` if the place has no validator.
    pub(super) fn validity(&self, at: &str, value: &Value) -> Option<Validity> {
        let [plain, with_formats] = &self.validators;
        Some(match (plain.get(at)?.is_valid(value), with_formats.get(at)?.is_valid(value)) {
            (true, true) => Validity::Valid,
            (false, false) => Validity::Invalid,
            _ => Validity::ByFormat,
        })
    }
}

/// A schema of the reader, with its place.
#[derive(Clone)]
pub(super) struct Node<'a> {
    pub(super) schema: &'a Value,
    pub(super) at: String,
}

pub(super) struct Proof<'p, 'a> {
    pub(super) writer: &'p Side<'a>,
    pub(super) reader: &'p Side<'a>,
    direction: Mode,
    pub(super) declared_only: bool,
    /// Whether a reference means the same in both schemas.
    shared: bool,
    found: Vec<Difference>,
    steps: Cell<usize>,
    /// The claims that are being proven, each with the depth of the value it is about. A claim about a part of a value may use the
    /// same claim about the whole.
    claims: Vec<(Vec<usize>, usize)>,
    depth: usize,
}

impl<'p, 'a> Proof<'p, 'a> {
    pub(super) fn new(writer: &'p Side<'a>, reader: &'p Side<'a>, direction: Mode, declared_only: bool) -> Self {
        let same = |key| writer.root.get(key) == reader.root.get(key);
        let shared = same("$defs") && same("definitions") && [writer, reader].iter().all(|side| is_local(side.root));
        let (found, claims) = (Vec::new(), Vec::new());
        Self { writer, reader, direction, declared_only, shared, found, steps: Cell::new(STEPS), claims, depth: 0 }
    }

    pub(super) fn differences(mut self) -> Vec<Difference> {
        if self.writer.root == self.reader.root {
            return Vec::new();
        }
        for side in [self.writer, self.reader] {
            if !side.is_comparable() {
                self.unknown("#/$schema", format!("{} is not of draft 2020-12, the one that is compared", side.name));
                return self.found;
            }
            if has_resources(side.root, true) {
                self.unknown("#", format!("{} has a schema with an $id of its own inside", side.name));
                return self.found;
            }
        }
        let writer = Writer::of(self.writer, [self.writer.root]);
        self.covers(&writer, &Node { schema: self.reader.root, at: "#".to_owned() });
        let mut found: Vec<Difference> = Vec::new();
        for difference in self.found {
            if !found.contains(&difference) {
                found.push(difference);
            }
        }
        found
    }

    pub(super) fn breaks(&mut self, at: impl Into<String>, what: impl Into<String>) -> bool {
        self.find(at.into(), what.into(), true)
    }

    pub(super) fn unknown(&mut self, at: impl Into<String>, what: impl Into<String>) -> bool {
        self.find(at.into(), what.into(), false)
    }

    fn find(&mut self, path: String, what: String, certain: bool) -> bool {
        self.found.push(Difference { direction: self.direction, path, what, certain });
        false
    }

    /// Runs a part of the proof whose differences do not count.
    pub(super) fn quietly(&mut self, prove: impl FnOnce(&mut Self) -> bool) -> bool {
        let before = self.found.len();
        let proven = prove(self);
        self.found.truncate(before);
        proven
    }

    /// Returns whether two keywords mean the same.
    pub(super) fn is_same(&self, one: &Value, other: &Value) -> bool {
        one == other && (self.shared || !has_references(one))
    }

    /// Proves that every value of the writer is allowed here.
    pub(super) fn covers(&mut self, writer: &Writer<'a>, reader: &Node<'a>) -> bool {
        if writer.is_never() {
            return true;
        }
        let left = self.steps.get();
        if left == 0 {
            return self.unknown(&reader.at, "the schemas are too complex to compare");
        }
        self.steps.set(left - 1);
        let mut claim = writer.key();
        claim.push(address(reader.schema));
        if let Some((_, depth)) = self.claims.iter().find(|(known, _)| *known == claim) {
            return *depth < self.depth || self.unknown(&reader.at, "the schema refers to itself");
        }
        let mut parts = Vec::new();
        if let Err(why) = self.flatten(reader, &mut parts) {
            return self.unknown(&reader.at, why);
        }
        self.claims.push((claim, self.depth));
        // Each part reports its differences.
        let mut proven = true;
        for part in &parts {
            proven &= self.covers_part(writer, part);
        }
        self.claims.pop();
        proven
    }

    /// As [`Proof::covers`], for a part of the value: a property or an item.
    pub(super) fn covers_inside(&mut self, schemas: Vec<&'a Value>, reader: &Node<'a>) -> bool {
        self.depth += 1;
        let proven = self.covers(&Writer::of(self.writer, schemas), reader);
        self.depth -= 1;
        proven
    }

    /// Collects the objects that must all allow a value: the schema, what it refers to, and its `allOf`.
    fn flatten(&self, node: &Node<'a>, parts: &mut Vec<Node<'a>>) -> Result<(), String> {
        let Value::Object(object) = node.schema else {
            if *node.schema == Value::Bool(false) {
                parts.push(node.clone());
            }
            return Ok(());
        };
        if parts.iter().any(|part| std::ptr::eq(part.schema, node.schema)) {
            return Ok(());
        }
        parts.push(node.clone());
        if let Some(key) = ["$dynamicRef", "$recursiveRef"].iter().find(|key| object.contains_key(**key)) {
            return Err(format!("{key} is not compared"));
        }
        if let Some(reference) = object.get("$ref") {
            let reference = reference.as_str().unwrap_or_default();
            let target =
                self.reader.resolve(reference).ok_or_else(|| format!("{reference} is not a place in the file"))?;
            self.flatten(&Node { schema: target, at: reference.to_owned() }, parts)?;
        }
        for (place, part) in object.get("allOf").and_then(Value::as_array).into_iter().flatten().enumerate() {
            self.flatten(&Node { schema: part, at: format!("{}/allOf/{place}", node.at) }, parts)?;
        }
        Ok(())
    }

    /// Proves one object, without its `$ref` and `allOf`: at once, or case by case.
    fn covers_part(&mut self, writer: &Writer<'a>, node: &Node<'a>) -> bool {
        if writer.is_never() {
            return true;
        }
        let Value::Object(object) = node.schema else {
            return self.breaks(&node.at, format!("{} allows nothing here", self.reader.name));
        };
        if let Some(values) = writer.values() {
            return self.covers_values(&values, node);
        }
        if writer.all.iter().any(|known| *known == object && (self.shared || !has_references(node.schema))) {
            return true;
        }
        let before = self.found.len();
        // Each keyword reports its differences.
        let mut proven = true;
        for (key, value) in object {
            let keyword = Node { schema: value, at: format!("{}/{key}", node.at) };
            proven &= self.covers_keyword(writer, object, key, &keyword);
        }
        if proven {
            return true;
        }
        let left = self.steps.get();
        let Some(cases) = writer.cases(self.writer).filter(|_| left > 0) else { return false };
        self.steps.set(left - 1);
        let found = self.found.split_off(before);
        if self.quietly(|proof| cases.iter().all(|case| proof.covers_part(case, node))) {
            return true;
        }
        self.found.extend(found);
        false
    }

    fn covers_values(&mut self, values: &[&'a Value], node: &Node<'a>) -> bool {
        let (writer, reader) = (self.writer.name, self.reader.name);
        let (mut refused, mut unclear) = (Vec::new(), Vec::new());
        for value in values {
            match self.reader.validity(&node.at, value) {
                Some(Validity::Valid) => {}
                Some(Validity::Invalid) => refused.push(value.to_string()),
                Some(Validity::ByFormat) => unclear.push(value.to_string()),
                None => {
                    return self
                        .unknown(&node.at, format!("{writer} has a list of values, and {reader} no validator here"));
                }
            }
        }
        if !refused.is_empty() {
            let refused = refused.join(", ");
            return self.breaks(&node.at, format!("{writer} allows {refused}, and {reader} does not"));
        }
        unclear.is_empty() || {
            let unclear = unclear.join(", ");
            let what =
                format!("{writer} allows {unclear}, and {reader} does so only with or only without a check of formats");
            self.unknown(&node.at, what)
        }
    }
}

/// Returns whether a schema has another one inside that its references could mean.
fn has_resources(schema: &Value, is_root: bool) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(|item| has_resources(item, false)),
        Value::Object(object) => {
            let is_one = !is_root && object.get("$id").is_some_and(Value::is_string);
            is_one || object.values().any(|value| has_resources(value, false))
        }
        _ => false,
    }
}

/// Returns whether a schema has references.
fn has_references(schema: &Value) -> bool {
    references(schema, &|_| true)
}

/// Returns whether all references lead into the definitions.
fn is_local(schema: &Value) -> bool {
    !references(schema, &|target| !(target.starts_with("#/$defs/") || target.starts_with("#/definitions/")))
}

/// Returns whether one of the references is such a one. References whose target depends on the reader are.
fn references(schema: &Value, is_such: &dyn Fn(&str) -> bool) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(|item| references(item, is_such)),
        Value::Object(object) => object.iter().any(|(key, value)| match (key.as_str(), value) {
            ("$ref", Value::String(target)) => is_such(target),
            ("$dynamicRef" | "$recursiveRef", Value::String(_)) => true,
            _ => references(value, is_such),
        }),
        _ => false,
    }
}
