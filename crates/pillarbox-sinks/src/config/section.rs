//! A table of the configuration while it is read. Each key is taken once, by its type. A key that is not taken is reported.

use std::fmt::Display;

use toml::{Table, Value};

use super::report::{Problem, Report, nearest, suggestion};
use super::resolver::Resolver;
use super::value::FromConfig;

/// One table, and its place in the file.
pub struct Section<'a> {
    place: String,
    table: Table,
    report: &'a Report,
    known: Vec<&'static str>,
    overrides: Option<Overrides<'a>>,
    /// Whether a required key may be missing.
    lenient: bool,
}

/// Variables and flags `PREFIX_KEY` that win over the file.
struct Overrides<'a> {
    resolver: &'a dyn Resolver,
    prefix: String,
    /// Whether only flags of the command line win, and variables do not.
    flags_only: bool,
}

impl<'a> Section<'a> {
    /// Returns a table at this place: `destinations`. The top of a file is at `""`.
    pub fn new(place: impl Into<String>, table: Table, report: &'a Report) -> Self {
        Self { place: place.into(), table, report, known: Vec::new(), overrides: None, lenient: false }
    }

    /// Returns the place of this table: `destinations.runner`.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the place of a key of this table: `relay.retry.base`.
    #[must_use]
    pub fn at(&self, key: &str) -> String {
        if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) }
    }

    /// Returns whether the file has this key.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Returns the text of a key, without taking it.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.table.get(key).and_then(Value::as_str)
    }

    /// Drops the remaining keys, so that none of them is reported as unknown.
    pub(crate) fn forget(&mut self) {
        self.table.clear();
    }

    /// Takes the value of a key. Reports a value of another type and returns `None`.
    pub fn take<T: FromConfig>(&mut self, key: &'static str) -> Option<T> {
        self.take_checked(key, |_: &T| Ok(()))
    }

    /// As [`Section::take`], and reports a value that the check refuses.
    pub fn take_checked<T: FromConfig>(
        &mut self,
        key: &'static str,
        check: impl FnOnce(&T) -> Result<(), String>,
    ) -> Option<T> {
        self.know(key);
        let written = self.table.remove(key);
        let checked = |value: T| check(&value).map(|()| value);
        if let Some((name, text)) = self.overridden(key) {
            return T::from_text(&text).and_then(checked).map_err(|what| self.report.elsewhere(&name, what)).ok();
        }
        T::from_toml(written?).and_then(checked).map_err(|what| self.problem(key, what)).ok()
    }

    /// As [`Section::take`], and reports a missing key with the advice: `write where to POST to`.
    pub fn require<T: FromConfig>(&mut self, key: &'static str, advice: impl Display) -> Option<T> {
        if !self.lenient && !self.has(key) && self.overridden(key).is_none() {
            self.problem(key, format_args!("is missing; {advice}"));
        }
        self.take(key)
    }

    /// Takes one of the named choices.
    pub fn choose<T: Copy>(&mut self, key: &'static str, choices: &[(&'static str, T)]) -> Option<T> {
        let named = |text: &str| choices.iter().find(|(name, _)| *name == text);
        let refuse = |text: &String| match named(text) {
            Some(_) => Ok(()),
            None => Err(format!(
                "is {text:?}, which is not valid{}",
                suggestion(text, choices.iter().map(|(name, _)| *name))
            )),
        };
        self.take_checked(key, refuse).and_then(|text: String| named(&text).map(|(_, choice)| *choice))
    }

    /// Gives each reader a copy of this table, and takes the keys that any of them knows. A key is reported only if no
    /// reader accepts it. A required key may be missing.
    pub fn take_for_any<'r>(&mut self, readers: impl IntoIterator<Item = &'r dyn Fn(&mut Section<'_>)>) {
        let mut refused: Vec<(&'static str, Vec<Problem>)> = Vec::new();
        let mut accepted: Vec<&'static str> = Vec::new();
        for read in readers {
            let apart = self.report.apart();
            let mut copy = Section::new(self.place.clone(), self.table.clone(), &apart);
            copy.lenient = true;
            read(&mut copy);
            let known = std::mem::take(&mut copy.known);
            let mut problems = apart.into_problems();
            for key in known {
                let place = self.at(key);
                let about: Vec<_> = problems.extract_if(.., |problem| problem.is_about(&place)).collect();
                if about.is_empty() {
                    accepted.push(key);
                } else if refused.iter().all(|(other, _)| *other != key) {
                    refused.push((key, about));
                }
            }
        }
        refused.retain(|(key, _)| !accepted.contains(key));
        for key in accepted.into_iter().chain(refused.iter().map(|(key, _)| *key)) {
            self.table.remove(key);
            if !self.known.contains(&key) {
                self.know(key);
            }
        }
        refused.into_iter().flat_map(|(_, problems)| problems).for_each(|problem| self.report.add(problem));
    }

    /// Remembers a key that somebody reads, for suggestions.
    fn know(&mut self, key: &'static str) {
        self.known.push(key);
        self.report.know(self.at(key));
    }

    /// Returns the value that replaces the file's, and the name of its variable or flag.
    fn overridden(&self, key: &str) -> Option<(String, String)> {
        let Overrides { resolver, prefix, flags_only } = self.overrides.as_ref()?;
        let name = format!("{prefix}_{}", key.to_uppercase());
        if let Some(flag) = resolver.flag(&name) {
            return Some(flag);
        }
        let text = if *flags_only { None } else { resolver.variable(&name) }?;
        Some((format!("the environment variable {name}"), text))
    }

    /// Lets flags of the command line for `PREFIX_KEY` win over the file.
    pub fn obey_flags(&mut self, prefix: &str, resolver: &'a dyn Resolver) {
        self.overrides = Some(Overrides { resolver, prefix: prefix.to_owned(), flags_only: true });
    }

    /// Reports a problem with a key of this table.
    pub fn problem(&self, key: &str, what: impl Display) {
        self.report.in_file(&self.at(key), what);
    }

    /// Reports a problem with this table itself.
    pub fn problem_here(&self, what: impl Display) {
        self.report.in_file(&self.place, what);
    }

    /// Takes a table within this one; an empty one if it is missing. Overrides apply to it too.
    pub fn section(&mut self, key: &'static str) -> Section<'a> {
        self.know(key);
        let table = match self.table.remove(key) {
            None => Table::new(),
            Some(Value::Table(table)) => table,
            Some(other) => {
                self.problem(key, format_args!("is {}, but must be a table", other.type_str()));
                Table::new()
            }
        };
        let overrides = self.overrides.as_ref().map(|overrides| Overrides {
            resolver: overrides.resolver,
            prefix: format!("{}_{}", overrides.prefix, key.to_uppercase()),
            flags_only: overrides.flags_only,
        });
        Section { overrides, ..self.made(key, table) }
    }

    /// Returns a table of this name with these keys, as if the file had it.
    #[must_use]
    pub fn made(&self, key: &str, table: Table) -> Section<'a> {
        Section::new(self.at(key), table, self.report)
    }

    /// Takes a table whose keys variables `PILLARBOX_SECTION_KEY` override.
    pub fn overridable(&mut self, key: &'static str, resolver: &'a dyn Resolver) -> Section<'a> {
        let prefix = format!("PILLARBOX_{}", key.to_uppercase());
        let overrides = Overrides { resolver, prefix, flags_only: false };
        Section { overrides: Some(overrides), ..self.section(key) }
    }

    /// Takes the tables of an array of tables, in order.
    pub fn sections(&mut self, key: &'static str) -> Vec<Section<'a>> {
        self.know(key);
        let items = match self.table.remove(key) {
            None => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.problem(key, format_args!("must be a list of tables; write each as [[{key}]]"));
                Vec::new()
            }
        };
        let mut sections = Vec::with_capacity(items.len());
        for (position, item) in items.into_iter().enumerate() {
            let place = format!("{}[{position}]", self.at(key));
            match item {
                Value::Table(table) => sections.push(Section::new(place, table, self.report)),
                _ => self.report.in_file(&place, format_args!("must be a table; write it as [[{key}]]")),
            }
        }
        sections
    }

    /// Takes the tables whose names the user chose, each with its name.
    pub fn named_sections(&mut self) -> Vec<(String, Section<'a>)> {
        let mut sections = Vec::new();
        for (name, value) in std::mem::take(&mut self.table) {
            match value {
                Value::Table(table) => {
                    let section = self.made(&name, table);
                    sections.push((name, section));
                }
                _ => self.problem(&name, format_args!("must be a table; write [{}.NAME] above its keys", self.place)),
            }
        }
        sections
    }

    /// Ends reading. Reports every key that was not taken as unknown.
    pub fn finish(self) {
        for key in self.table.keys() {
            let what = if self.place.is_empty() { "section" } else { "key" };
            self.report.unknown(self.at(key), key, &self.known, format_args!("is not a {what}"));
        }
        self.warn_of_near_misses();
    }

    /// Logs misspelt variables. They are not errors, because other programs may use the same prefix, for example
    /// Kubernetes.
    fn warn_of_near_misses(&self) {
        let Some(Overrides { resolver, prefix, flags_only: false }) = &self.overrides else { return };
        let known: Vec<String> = self.known.iter().map(|key| format!("{prefix}_{}", key.to_uppercase())).collect();
        let begin = format!("{prefix}_");
        for name in resolver.names(&begin) {
            let is_known = known.iter().any(|known| name.starts_with(known.as_str()));
            let meant = name.strip_prefix(&begin).and_then(|key| nearest(key, self.known.iter().copied()));
            if let (false, Some(meant)) = (is_known, meant) {
                tracing::warn!(
                    "the environment variable {name} is not a setting; did you mean {begin}{}?",
                    meant.to_uppercase()
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(text: &str) -> String {
        let report = Report::default();
        let mut section = Section::new("a", text.parse().unwrap(), &report);
        let http =
            |keys: &mut Section<'_>| drop((keys.require::<String>("url", "write it"), keys.take::<bool>("headers")));
        let nats = |keys: &mut Section<'_>| drop((keys.take::<Vec<String>>("headers"), keys.take::<u8>("level")));
        section.take_for_any([&http as &dyn Fn(&mut Section<'_>), &nats]);
        section.finish();
        report.into_result().map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn a_key_is_right_if_one_reader_accepts_it() {
        for text in ["", "url = \"x\"\nheaders = true\nlevel = 1", "headers = [\"x\"]"] {
            assert_eq!(problems_of(text), "", "{text}");
        }
        assert_eq!(problems_of("headers = 1"), "a.headers is of type integer, but must be true or false");
        assert_eq!(
            problems_of("level = true"),
            "a.level is of type boolean, but must be a whole number, not negative and without quotes"
        );
        assert_eq!(problems_of("levle = 1"), "a.levle is not a key; did you mean level?");
        assert_eq!(problems_of("zzz = 1"), "a.zzz is not a key; choose one of: url, headers, level");
    }
}
