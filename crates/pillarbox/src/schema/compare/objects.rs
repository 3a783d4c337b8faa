//! The reader's keywords about objects.

use serde_json::Value;

use super::proof::{Node, Proof};
use super::writer::{Object, Writer, has_patterns, strings};
use crate::schema::path::escaped;

impl<'a> Proof<'_, 'a> {
    pub(super) fn covers_properties(&mut self, writer: &Writer<'a>, node: &Node<'a>) -> bool {
        let mut proven = true;
        for (name, schema) in node.schema.as_object().into_iter().flatten() {
            if self.declared_only && writer.knows_nothing_of(name) {
                continue;
            }
            let known = writer.property(name);
            let property = Node { schema, at: format!("{}/{}", node.at, escaped(name)) };
            proven &= if known.is_empty() {
                self.quietly(|proof| proof.covers_inside(known, &property)) || {
                    let (writer, reader) = (self.writer.name, self.reader.name);
                    let what =
                        format!("{writer} does not declare {name:?} and allows any value there, and {reader} does not");
                    self.breaks(property.at, what)
                }
            } else {
                self.covers_inside(known, &property)
            };
        }
        proven
    }

    pub(super) fn covers_patterns(&mut self, writer: &Writer<'a>, node: &Node<'a>) -> bool {
        let mut proven = true;
        for (pattern, schema) in node.schema.as_object().into_iter().flatten() {
            let same = writer.each("patternProperties").filter_map(|patterns| patterns.get(pattern)).collect();
            let node = Node { schema, at: format!("{}/{}", node.at, escaped(pattern)) };
            // More names than match the pattern.
            let covers_all = |proof: &mut Self| {
                is_closed(writer)
                    && writer.declared().iter().all(|name| proof.covers_inside(writer.property(name), &node))
            };
            proven &= self.quietly(|proof| proof.covers_inside(same, &node)) || self.quietly(covers_all) || {
                self.unknown(&node.at, format!("{} does not promise the same for this pattern", self.writer.name))
            };
        }
        proven
    }

    pub(super) fn covers_additional(&mut self, writer: &Writer<'a>, beside: &'a Object, node: &Node<'a>) -> bool {
        if *node.schema == Value::Bool(true) {
            return true;
        }
        let (wide, narrow) = (self.writer.name, self.reader.name);
        let mut proven = true;
        for name in writer.declared() {
            let is_declared = beside.get("properties").is_some_and(|properties| properties.get(name).is_some());
            let fits = is_declared || self.quietly(|proof| proof.covers_inside(writer.property(name), node));
            if !fits {
                proven = if has_patterns(beside) {
                    self.unknown(&node.at, format!("{wide} declares {name:?}, which a pattern of {narrow} may allow"))
                } else {
                    self.breaks(&node.at, format!("{wide} allows the property {name:?}, and {narrow} does not"))
                };
            }
        }
        for schema in
            writer.each("patternProperties").filter_map(Value::as_object).flat_map(|patterns| patterns.values())
        {
            if !self.quietly(|proof| proof.covers_inside(vec![schema], node)) {
                proven = self.unknown(&node.at, format!("{wide} allows properties by a pattern"));
            }
        }
        let rest = writer.undeclared();
        let none = self.declared_only && writer.knows_all();
        if !none && !self.quietly(|proof| proof.covers_inside(rest, node)) {
            let what =
                format!("{wide} allows properties that it does not declare, and {narrow} does not allow all of them");
            proven = self.breaks(&node.at, what);
        }
        proven
    }

    pub(super) fn covers_required(&mut self, writer: &Writer<'a>, node: &Node<'a>) -> bool {
        let required = writer.required();
        let mut proven = true;
        for name in node.schema.as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !required.contains(name) {
                let (wide, narrow) = (self.writer.name, self.reader.name);
                proven = self.breaks(&node.at, format!("{narrow} requires {name:?}, and {wide} does not"));
            }
        }
        proven
    }

    pub(super) fn covers_dependent(&mut self, writer: &Writer<'a>, node: &Node<'a>) -> bool {
        let required = writer.required();
        let mut proven = true;
        for (name, needed) in node.schema.as_object().into_iter().flatten() {
            let needed = || needed.as_array().into_iter().flatten().filter_map(Value::as_str);
            let own = writer.each("dependentRequired").filter_map(|all| all.get(name)?.as_array());
            let told: Vec<&str> = own.flatten().filter_map(Value::as_str).collect();
            let is_told = needed().all(|one| required.contains(one) || told.contains(&one));
            if !is_told && !is_forbidden(writer, name) {
                let what = format!("{} requires more beside {name:?} than {} does", self.reader.name, self.writer.name);
                proven = self.breaks(&node.at, what);
            }
        }
        proven
    }

    pub(super) fn covers_names(&mut self, writer: &Writer<'a>, node: &Node<'a>) -> bool {
        let known: Vec<&Value> = writer.each("propertyNames").chain([strings()]).collect();
        self.quietly(|proof| proof.covers_inside(known, node)) || {
            self.unknown(&node.at, format!("{} does not promise the same for names of properties", self.writer.name))
        }
    }
}

/// Returns whether no value has this property.
pub(super) fn is_forbidden(writer: &Writer<'_>, name: &str) -> bool {
    writer.property(name).contains(&&Value::Bool(false))
}

/// Returns whether only declared properties are allowed.
fn is_closed(writer: &Writer<'_>) -> bool {
    let closes =
        |object: &&Object| !has_patterns(object) && object.get("additionalProperties") == Some(&Value::Bool(false));
    writer.all.iter().any(closes)
}
