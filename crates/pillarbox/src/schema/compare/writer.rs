//! What is known of a value that the writer's schema allows: every object of [`Writer::all`] holds. Leaving one out is always sound:
//! then less is known.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Number, Value, json};

use super::keywords::count;
use super::proof::Side;

pub(super) type Object = Map<String, Value>;

/// A set of JSON types. Integers are numbers without a fraction.
pub(super) type Types = u8;
pub(super) const NUMBERS: Types = 0b1100;
pub(super) const STRING: Types = 0b1_0000;
pub(super) const ARRAY: Types = 0b10_0000;
pub(super) const OBJECT: Types = 0b100_0000;
const NULL_OR_BOOLEAN: Types = 0b11;
const ANY: Types = 0b111_1111;
const INTEGER: Types = 0b100;
const NAMES: [(&str, Types); 7] = [
    ("null", 1),
    ("boolean", 0b10),
    ("integer", INTEGER),
    ("number", NUMBERS),
    ("string", STRING),
    ("array", ARRAY),
    ("object", OBJECT),
];

/// A schema for each type, for a proof by cases.
static ONE_TYPE: LazyLock<Vec<(Types, Value)>> = LazyLock::new(|| {
    NAMES.iter().filter(|(_, types)| *types != INTEGER).map(|(name, types)| (*types, json!({ "type": name }))).collect()
});

/// Returns the schema of strings.
pub(super) fn strings() -> &'static Value {
    ONE_TYPE.iter().find(|(types, _)| *types == STRING).map_or(&Value::Null, |(_, schema)| schema)
}

/// Returns the types that the keyword `type` allows.
pub(super) fn types_of(keyword: Option<&Value>) -> Types {
    let named = |name: &Value| NAMES.iter().find(|(known, _)| name == known).map_or(0, |(_, types)| *types);
    match keyword {
        None => ANY,
        Some(Value::Array(names)) => names.iter().fold(0, |types, name| types | named(name)),
        Some(name) => named(name),
    }
}

/// Returns the types that a value may be of. A float without a fraction is an integer to validators; a large one may have lost its
/// fraction.
fn types_of_value(value: &Value) -> Types {
    match value {
        Value::Null => 1,
        Value::Bool(_) => 0b10,
        Value::Number(number) if number.is_i64() || number.is_u64() => INTEGER,
        Value::Number(number) if number.as_f64().is_some_and(|number| number.fract() != 0.0) => NUMBERS & !INTEGER,
        Value::Number(_) => NUMBERS,
        Value::String(_) => STRING,
        Value::Array(_) => ARRAY,
        Value::Object(_) => OBJECT,
    }
}

/// Returns the names of types, for people.
pub(super) fn shown(types: Types) -> String {
    let whole = if types & NUMBERS == NUMBERS { INTEGER } else { 0 };
    let shown = |(_, one): &&(&str, Types)| *one != whole && types & one == *one;
    let mut names: Vec<&str> = NAMES.iter().filter(shown).map(|(name, _)| *name).collect();
    if types & NUMBERS == NUMBERS & !INTEGER {
        names.push("fractions");
    }
    names.join(", ")
}

#[derive(Clone, Default)]
pub(super) struct Writer<'a> {
    pub(super) all: Vec<&'a Object>,
    /// Whether a reference was left out.
    is_partial: bool,
    /// Whether a schema `false` holds: there is no such value.
    never: bool,
    /// The choices that were made already in a proof by cases, as the object and its keyword.
    chosen: Vec<(usize, &'static str)>,
    typed: bool,
}

const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

pub(super) fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of).addr()
}

impl<'a> Writer<'a> {
    /// Returns what is known of a value that all of these schemas allow.
    pub(super) fn of(side: &Side<'a>, schemas: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut writer = Self::default();
        schemas.into_iter().for_each(|schema| writer.add(side, schema));
        writer
    }

    fn add(&mut self, side: &Side<'a>, schema: &'a Value) {
        match schema {
            Value::Bool(false) => self.never = true,
            Value::Object(object) if !self.all.iter().any(|known| std::ptr::eq(*known, object)) => {
                self.all.push(object);
                match side.target_of(object) {
                    Some(target) => self.add(side, target),
                    None => self.is_partial |= REFERENCES.iter().any(|key| object.contains_key(*key)),
                }
                for part in object.get("allOf").and_then(Value::as_array).into_iter().flatten() {
                    self.add(side, part);
                }
            }
            _ => {}
        }
    }

    fn with(&self, side: &Side<'a>, schema: &'a Value) -> Self {
        let mut writer = self.clone();
        writer.add(side, schema);
        writer
    }

    pub(super) fn types(&self) -> Types {
        self.all.iter().fold(ANY, |types, object| types & types_of(object.get("type")))
    }

    pub(super) fn may_be(&self, types: Types) -> bool {
        self.types() & types != 0
    }

    pub(super) fn is_integer(&self) -> bool {
        self.types() & NUMBERS == INTEGER
    }

    /// Returns whether no value is allowed.
    pub(super) fn is_never(&self) -> bool {
        self.never || self.types() == 0
    }

    /// Returns the values of a keyword, of all objects that have it.
    pub(super) fn each(&self, key: &str) -> impl Iterator<Item = &'a Value> {
        self.all.iter().filter_map(move |object| object.get(key))
    }

    pub(super) fn numbers(&self, key: &str) -> impl Iterator<Item = &'a Number> {
        self.each(key).filter_map(|value| if let Value::Number(number) = value { Some(number) } else { None })
    }

    /// Returns a list that has all values, if there is one. It may have more than are allowed, but none of another type.
    pub(super) fn values(&self) -> Option<Vec<&'a Value>> {
        static FEW: LazyLock<[Value; 3]> = LazyLock::new(|| [Value::Null, false.into(), true.into()]);
        let listed = if let Some(only) = self.each("const").next() {
            std::slice::from_ref(only)
        } else if let Some(Value::Array(values)) = self.each("enum").next() {
            values
        } else if self.types() & !NULL_OR_BOOLEAN == 0 {
            FEW.as_slice()
        } else {
            return None;
        };
        Some(listed.iter().filter(|value| self.may_be(types_of_value(value))).collect())
    }

    pub(super) fn required(&self) -> BTreeSet<&'a str> {
        self.each("required").filter_map(Value::as_array).flatten().filter_map(Value::as_str).collect()
    }

    /// Returns the names of declared properties.
    pub(super) fn declared(&self) -> BTreeSet<&'a str> {
        self.each("properties").filter_map(Value::as_object).flat_map(Map::keys).map(String::as_str).collect()
    }

    /// Returns what is known of a property, if it is there.
    pub(super) fn property(&self, name: &str) -> Vec<&'a Value> {
        let of = |object: &&'a Object| {
            let declared = object.get("properties").and_then(|properties| properties.get(name));
            declared.or_else(|| if has_patterns(object) { None } else { object.get("additionalProperties") })
        };
        self.all.iter().filter_map(of).collect()
    }

    /// Returns what is known of the properties that no `properties` and no `patternProperties` names.
    pub(super) fn undeclared(&self) -> Vec<&'a Value> {
        self.each("additionalProperties").collect()
    }

    /// Returns the names of properties that values have or may have because a keyword says so, declared or not.
    fn named(&self) -> BTreeSet<&'a str> {
        let dependent = self.each("dependentRequired").filter_map(Value::as_object).flatten();
        let names = dependent.flat_map(|(name, needed)| {
            let needed = needed.as_array().into_iter().flatten().filter_map(Value::as_str);
            needed.chain([name.as_str()])
        });
        names.chain(self.required()).collect()
    }

    /// Returns whether the schema does not mention this property: under `declared_only`, no value has it.
    pub(super) fn knows_nothing_of(&self, name: &str) -> bool {
        !self.is_open() && !self.declared().contains(name) && !self.named().contains(name)
    }

    /// Returns whether all properties that the schema mentions are declared: under `declared_only`, values have no others.
    pub(super) fn knows_all(&self) -> bool {
        !self.is_open() && self.named().is_subset(&self.declared())
    }

    /// Returns whether properties may be declared somewhere else, or values are maps: they must have more properties than are
    /// mentioned, or names of a form.
    fn is_open(&self) -> bool {
        const ELSEWHERE: [&str; 11] = [
            "additionalProperties",
            "anyOf",
            "dependencies",
            "dependentSchemas",
            "else",
            "if",
            "not",
            "oneOf",
            "propertyNames",
            "then",
            "unevaluatedProperties",
        ];
        let elsewhere =
            |object: &&Object| has_patterns(object) || ELSEWHERE.iter().any(|key| object.contains_key(*key));
        let mentioned = self.declared().union(&self.named()).count() as u64;
        let is_map = self.each("minProperties").filter_map(count).any(|least| least > mentioned);
        self.is_partial || is_map || self.all.iter().any(elsewhere)
    }

    /// Returns what is known of the item at a position.
    pub(super) fn item(&self, position: usize) -> Vec<&'a Value> {
        let of = |object: &&'a Object| {
            let first = object.get("prefixItems").and_then(|items| items.get(position));
            first.or_else(|| object.get("items"))
        };
        self.all.iter().filter_map(of).collect()
    }

    /// Returns the number of items that have a schema of their own.
    pub(super) fn listed_items(&self) -> usize {
        self.each("prefixItems").filter_map(Value::as_array).map(Vec::len).max().unwrap_or_default()
    }

    /// Returns the cases of a choice that was not made yet: alternatives first, then types. All values are in one of them.
    pub(super) fn cases(&self, side: &Side<'a>) -> Option<Vec<Self>> {
        for object in &self.all {
            for key in ["anyOf", "oneOf"] {
                let place = (address(*object), key);
                if let Some(Value::Array(branches)) = object.get(key).filter(|_| !self.chosen.contains(&place)) {
                    let case = |branch| {
                        let mut case = self.with(side, branch);
                        case.chosen.push(place);
                        case
                    };
                    return Some(branches.iter().map(case).collect());
                }
            }
        }
        let types = self.types();
        if self.typed || types.count_ones() < 2 || types == ANY {
            return None;
        }
        let case = |(_, schema): &'static (Types, Value)| Self { typed: true, ..self.with(side, schema) };
        Some(ONE_TYPE.iter().filter(|(one, _)| types & one != 0).map(case).collect())
    }

    /// Returns the same for the same schemas, for proofs about schemas that refer to themselves.
    pub(super) fn key(&self) -> Vec<usize> {
        let mut key: Vec<usize> = self.all.iter().map(|object| address(*object)).collect();
        key.sort_unstable();
        key
    }
}

pub(super) fn has_patterns(object: &Object) -> bool {
    object.get("patternProperties").and_then(Value::as_object).is_some_and(|patterns| !patterns.is_empty())
}
