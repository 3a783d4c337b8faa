//! The keywords of the reader, one by one: those about types, numbers and text here, the others in the files beside this one.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::proof::{Node, Proof};
use super::writer::{ARRAY, NUMBERS, OBJECT, Object, STRING, Types, Writer, shown, types_of};

/// Keywords that say nothing of values, or belong to another keyword.
const SILENT: [&str; 20] = [
    "$schema",
    "$id",
    "$defs",
    "definitions",
    "$anchor",
    "$dynamicAnchor",
    "$comment",
    "$vocabulary",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$ref",
    "allOf",
    "then",
    "else",
    "contentSchema",
];
/// Keywords whose meaning depends on other keywords beside them.
const DEPENDENT: [&str; 8] = [
    "additionalProperties",
    "items",
    "contains",
    "minContains",
    "maxContains",
    "if",
    "unevaluatedProperties",
    "unevaluatedItems",
];

impl<'a> Proof<'_, 'a> {
    /// Proves that the writer's values satisfy one keyword. `beside` is the object that has it.
    pub(super) fn covers_keyword(
        &mut self,
        writer: &Writer<'a>,
        beside: &'a Object,
        key: &str,
        node: &Node<'a>,
    ) -> bool {
        let value = node.schema;
        let is_told = !DEPENDENT.contains(&key) && writer.each(key).any(|told| self.is_same(told, value));
        if is_told || SILENT.contains(&key) || !writer.may_be(subject(key)) {
            return true;
        }
        match key {
            "type" => self.covers_type(writer, node),
            "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum" => self.covers_bound(writer, key, node),
            "multipleOf" => self.covers_multiple(writer, node),
            "minLength" | "minItems" | "minProperties" => self.covers_least(writer, key, node),
            "maxLength" | "maxItems" | "maxProperties" => self.covers_most(writer, key, node),
            "const" | "enum" => self.breaks(&node.at, format!("{} has no such list of values", self.writer.name)),
            "pattern" => self.covers_pattern(writer, node),
            "properties" => self.covers_properties(writer, node),
            "patternProperties" => self.covers_patterns(writer, node),
            "additionalProperties" => self.covers_additional(writer, beside, node),
            "required" => self.covers_required(writer, node),
            "dependentRequired" => self.covers_dependent(writer, node),
            "propertyNames" => self.covers_names(writer, node),
            "prefixItems" => self.covers_first_items(writer, node),
            "items" => self.covers_items(writer, beside, node),
            "uniqueItems" => self.covers_unique(writer, node),
            "contains" | "minContains" | "maxContains" => self.covers_contains(writer, beside, node),
            "anyOf" => self.covers_any(writer, node),
            "oneOf" => self.covers_one(writer, node),
            "not" => self.covers_not(writer, node),
            "if" => self.covers_condition(writer, beside, node),
            "unevaluatedProperties" | "unevaluatedItems" if *value == Value::Bool(true) => true,
            "unevaluatedProperties"
            | "unevaluatedItems"
            | "dependentSchemas"
            | "dependencies"
            | "additionalItems"
            | "format"
            | "contentEncoding"
            | "contentMediaType" => {
                self.unknown(&node.at, format!("{} does not have the same {key}", self.writer.name))
            }
            // Validators ignore keywords that they do not know.
            _ => true,
        }
    }

    fn covers_type(&mut self, writer: &Writer<'a>, node: &Node<'a>) -> bool {
        let more = writer.types() & !types_of(Some(node.schema));
        if more == 0 {
            return true;
        }
        let (wide, narrow) = (self.writer.name, self.reader.name);
        self.breaks(&node.at, format!("{wide} allows {}, and {narrow} does not", shown(more)))
    }

    fn covers_bound(&mut self, writer: &Writer<'a>, key: &str, node: &Node<'a>) -> bool {
        let Value::Number(limit) = node.schema else { return true };
        let (plain, exclusive, tighter) = if key.ends_with("inimum") {
            ("minimum", "exclusiveMinimum", Ordering::Greater)
        } else {
            ("maximum", "exclusiveMaximum", Ordering::Less)
        };
        let is_exclusive = key == exclusive;
        let from_plain = writer.numbers(plain).any(|own| match order(own, limit) {
            Some(Ordering::Equal) => !is_exclusive,
            other => other == Some(tighter),
        });
        let from_exclusive = writer.numbers(exclusive).any(|own| {
            let next = own.as_i64().and_then(|own| own.checked_add(if tighter == Ordering::Greater { 1 } else { -1 }));
            let is_next = writer.is_integer() && !is_exclusive && next.is_some() && next == limit.as_i64();
            is_next || matches!(order(own, limit), Some(found) if found == tighter || found == Ordering::Equal)
        });
        from_plain || from_exclusive || {
            let what = format!("{} has a {key} of {limit}, and {} allows more", self.reader.name, self.writer.name);
            self.breaks(&node.at, what)
        }
    }

    fn covers_multiple(&mut self, writer: &Writer<'a>, node: &Node<'a>) -> bool {
        let divides = |own: &Number| match (own.as_u64(), node.schema.as_u64()) {
            (Some(own), Some(step)) => step > 0 && own.is_multiple_of(step),
            _ => false,
        };
        let is_whole = node.schema.as_u64() == Some(1) && writer.is_integer();
        is_whole || writer.numbers("multipleOf").any(divides) || {
            let what = format!(
                "{} asks for a multiple of {}, and {} does not",
                self.reader.name, node.schema, self.writer.name
            );
            self.breaks(&node.at, what)
        }
    }

    fn covers_least(&mut self, writer: &Writer<'a>, key: &str, node: &Node<'a>) -> bool {
        let Some(least) = count(node.schema) else { return self.unknown(&node.at, "the number cannot be compared") };
        let named = if key == "minProperties" { writer.required().len() as u64 } else { 0 };
        let own = writer.each(key).filter_map(count).max().unwrap_or_default().max(named);
        own >= least || {
            let what = format!("{} asks for {least} or more, and {} for {own}", self.reader.name, self.writer.name);
            self.breaks(&node.at, what)
        }
    }

    fn covers_most(&mut self, writer: &Writer<'a>, key: &str, node: &Node<'a>) -> bool {
        let Some(most) = count(node.schema) else { return self.unknown(&node.at, "the number cannot be compared") };
        let own = writer.each(key).filter_map(count).min();
        own.is_some_and(|own| own <= most) || {
            let own = own.map_or("any number".to_owned(), |own| own.to_string());
            let what = format!("{} allows {most} at most, and {} allows {own}", self.reader.name, self.writer.name);
            self.breaks(&node.at, what)
        }
    }

    fn covers_pattern(&mut self, writer: &Writer<'a>, node: &Node<'a>) -> bool {
        if writer.each("pattern").next().is_some() || writer.each("format").next().is_some() {
            return self.unknown(&node.at, format!("{} has another pattern or a format", self.writer.name));
        }
        self.breaks(&node.at, format!("{} asks for a pattern, and {} does not", self.reader.name, self.writer.name))
    }
}

/// Returns the types of values that a keyword is about. Others satisfy it.
fn subject(key: &str) -> Types {
    match key {
        "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum" | "multipleOf" => NUMBERS,
        "minLength" | "maxLength" | "pattern" | "contentEncoding" | "contentMediaType" => STRING,
        "prefixItems" | "items" | "minItems" | "maxItems" | "uniqueItems" | "contains" | "minContains"
        | "maxContains" | "unevaluatedItems" | "additionalItems" => ARRAY,
        "properties"
        | "patternProperties"
        | "additionalProperties"
        | "required"
        | "minProperties"
        | "maxProperties"
        | "propertyNames"
        | "dependentRequired"
        | "dependentSchemas"
        | "dependencies"
        | "unevaluatedProperties" => OBJECT,
        _ => Types::MAX,
    }
}

/// Returns the order of two numbers, if it is certain.
fn order(one: &Number, other: &Number) -> Option<Ordering> {
    /// Up to here, every whole number is a float.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let whole = |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => {
            let (one, other) = (one.as_f64()?, other.as_f64()?);
            (one.abs() < EXACT && other.abs() < EXACT).then(|| one.partial_cmp(&other)).flatten()
        }
    }
}

/// Returns a number of characters, items or properties. `3.0` is one, too.
pub(super) fn count(value: &Value) -> Option<u64> {
    let whole = |number: f64| (number.fract() == 0.0 && (0.0..1e15).contains(&number)).then_some(number as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}
