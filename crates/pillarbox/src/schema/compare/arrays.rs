//! The reader's keywords about arrays.

use serde_json::Value;

use super::proof::{Node, Proof};
use super::writer::{Object, Writer};

impl<'a> Proof<'_, 'a> {
    pub(super) fn covers_first_items(&mut self, writer: &Writer<'a>, node: &Node<'a>) -> bool {
        let mut proven = true;
        for (position, schema) in node.schema.as_array().into_iter().flatten().enumerate() {
            if position >= longest(writer) {
                break;
            }
            let node = Node { schema, at: format!("{}/{position}", node.at) };
            proven &= self.covers_inside(writer.item(position), &node);
        }
        proven
    }

    pub(super) fn covers_items(&mut self, writer: &Writer<'a>, beside: &'a Object, node: &Node<'a>) -> bool {
        if node.schema.is_array() || writer.each("items").any(Value::is_array) {
            return self.unknown(&node.at, "items as a list is of an older draft; write prefixItems");
        }
        let first = beside.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
        // The last one stands for all behind it.
        let last = writer.listed_items().max(first);
        let positions = (first..=last).take_while(|position| *position < longest(writer));
        let mut proven = true;
        for position in positions {
            proven &= self.covers_inside(writer.item(position), node);
        }
        proven
    }

    pub(super) fn covers_unique(&mut self, writer: &Writer<'a>, node: &Node<'a>) -> bool {
        let is_unique = *node.schema == Value::Bool(false)
            || writer.each("uniqueItems").any(|own| *own == Value::Bool(true))
            || longest(writer) < 2;
        is_unique || {
            let what = format!("{} asks for items that differ, and {} does not", self.reader.name, self.writer.name);
            self.breaks(&node.at, what)
        }
    }

    pub(super) fn covers_contains(&mut self, writer: &Writer<'a>, beside: &'a Object, node: &Node<'a>) -> bool {
        let Some(contains) = beside.get("contains") else { return true };
        let limits = ["minContains", "maxContains"];
        let is_same = |own: &&Object| {
            own.get("contains").is_some_and(|own| self.is_same(own, contains))
                && limits.iter().all(|limit| own.get(*limit) == beside.get(*limit))
        };
        let asks_nothing =
            beside.get("minContains").and_then(Value::as_u64) == Some(0) && !beside.contains_key("maxContains");
        asks_nothing || writer.all.iter().any(is_same) || {
            self.unknown(&node.at, format!("{} does not have the same contains", self.writer.name))
        }
    }
}

/// Returns the most items of the writer's arrays.
fn longest(writer: &Writer<'_>) -> usize {
    let most = writer.each("maxItems").filter_map(Value::as_u64).min();
    most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}
