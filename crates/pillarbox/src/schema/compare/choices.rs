//! The reader's keywords that choose: alternatives, conditions and negations.

use serde_json::Value;

use super::objects::is_forbidden;
use super::proof::{Node, Proof, Validity};
use super::writer::{Object, Writer};

impl<'a> Proof<'_, 'a> {
    pub(super) fn covers_any(&mut self, writer: &Writer<'a>, node: &Node<'a>) -> bool {
        branches(node).iter().any(|branch| self.quietly(|proof| proof.covers(writer, branch))) || {
            let what =
                format!("no alternative of {} is known to allow all that {} does", self.reader.name, self.writer.name);
            self.unknown(&node.at, what)
        }
    }

    pub(super) fn covers_one(&mut self, writer: &Writer<'a>, node: &Node<'a>) -> bool {
        let branches = branches(node);
        let is_only = |proof: &mut Self, chosen: usize| {
            let mut others = branches.iter().enumerate().filter(|(place, _)| *place != chosen);
            others.all(|(_, other)| proof.is_apart(writer, other))
        };
        let proven = (0..branches.len())
            .any(|chosen| self.quietly(|proof| proof.covers(writer, &branches[chosen])) && is_only(self, chosen));
        proven || {
            let what = format!(
                "no alternative of {} is known to allow all that {} does while the others do not",
                self.reader.name, self.writer.name
            );
            self.unknown(&node.at, what)
        }
    }

    pub(super) fn covers_not(&mut self, writer: &Writer<'a>, node: &Node<'a>) -> bool {
        self.is_apart(writer, node) || {
            self.unknown(&node.at, format!("{} may allow what {} excludes", self.writer.name, self.reader.name))
        }
    }

    pub(super) fn covers_condition(&mut self, writer: &Writer<'a>, beside: &'a Object, node: &Node<'a>) -> bool {
        let absent = Value::Bool(true);
        let is_same = |own: &&Object| {
            own.contains_key("if")
                && ["if", "then", "else"]
                    .iter()
                    .all(|key| self.is_same(own.get(*key).unwrap_or(&absent), beside.get(*key).unwrap_or(&absent)))
        };
        writer.all.iter().any(is_same) || {
            self.unknown(&node.at, format!("{} does not have the same condition", self.writer.name))
        }
    }

    /// Proves that the reader's schema allows none of the writer's values.
    fn is_apart(&mut self, writer: &Writer<'a>, node: &Node<'a>) -> bool {
        if writer.is_never() {
            return true;
        }
        if let Some(values) = writer.values() {
            return values.iter().all(|value| self.reader.validity(&node.at, value) == Some(Validity::Invalid));
        }
        let reader = Writer::of(self.reader, [node.schema]);
        if reader.is_never() || writer.types() & reader.types() == 0 {
            return true;
        }
        // A required property decides: it is forbidden on the other side, or has other values there.
        if !writer.may_be(super::writer::OBJECT) || writer.types() & reader.types() != super::writer::OBJECT {
            return false;
        }
        let (needed, theirs) = (writer.required(), reader.required());
        let differs = |name: &&&str| {
            let own = Writer::of(self.writer, writer.property(name)).values();
            let other = Writer::of(self.reader, reader.property(name)).values();
            own.zip(other)
                .is_some_and(|(own, other)| !own.iter().any(|one| other.iter().any(|other| may_equal(one, other))))
        };
        needed.iter().any(|name| is_forbidden(&reader, name) || differs(&name))
            || theirs.iter().any(|name| is_forbidden(writer, name))
    }
}

fn branches<'a>(node: &Node<'a>) -> Vec<Node<'a>> {
    let branch = |(place, schema)| Node { schema, at: format!("{}/{place}", node.at) };
    node.schema.as_array().into_iter().flatten().enumerate().map(branch).collect()
}

/// Returns whether two values may be the same to a validator: `1` and `1.0` are. Arrays and objects are not looked into.
fn may_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => true,
        _ => one == other,
    }
}
