//! A table of the configuration while it is lowered: each key is taken once, by its type, and what nobody took is a
//! mistake of whoever wrote it.

use toml::{Table, Value};

use super::environment::Environment;
use super::report::{Report, nearest, suggestion};
use super::value::FromConfig;

/// One table, and where it stands.
pub(super) struct Section<'a> {
    place: String,
    table: Table,
    report: &'a Report,
    known: Vec<&'static str>,
    overrides: Option<Overrides<'a>>,
}

/// Variables `PREFIX_KEY` win over what is written.
struct Overrides<'a> {
    environment: &'a Environment,
    prefix: String,
    /// Only flags of the command line do, and no variable of that name.
    flags_only: bool,
}

impl<'a> Section<'a> {
    pub(super) fn new(place: String, table: Table, report: &'a Report) -> Self {
        Self { place, table, report, known: Vec::new(), overrides: None }
    }

    /// Where a key of this section stands: `relay.retry.base`.
    pub(super) fn at(&self, key: &str) -> String {
        if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) }
    }

    /// Whether the file gives it.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// The value of a key, if it was given and can be one.
    pub(super) fn take<T: FromConfig>(&mut self, key: &'static str) -> Option<T> {
        self.take_checked(key, |_: &T| Ok(()))
    }

    /// As [`Section::take`]; a value that the check refuses is a problem too.
    pub(super) fn take_checked<T: FromConfig>(
        &mut self,
        key: &'static str,
        check: impl FnOnce(&T) -> Result<(), String>,
    ) -> Option<T> {
        self.known.push(key);
        let written = self.table.remove(key);
        let checked = |value: T| check(&value).map(|()| value);
        if let Some((name, text)) = self.overridden(key) {
            return T::from_text(text).and_then(checked).map_err(|what| self.report.elsewhere(&name, what)).ok();
        }
        T::from_toml(written?).and_then(checked).map_err(|what| self.problem(key, what)).ok()
    }

    /// The one of the named choices that was written.
    pub(super) fn choose<T: Copy>(&mut self, key: &'static str, choices: &[(&'static str, T)]) -> Option<T> {
        let named = |text: &str| choices.iter().find(|(name, _)| *name == text);
        let refuse = |text: &String| match named(text) {
            Some(_) => Ok(()),
            None => Err(format!(
                "is {text:?}, which is not a choice{}",
                suggestion(text, choices.iter().map(|(name, _)| *name))
            )),
        };
        self.take_checked(key, refuse).and_then(|text: String| named(&text).map(|(_, choice)| *choice))
    }

    /// What is said elsewhere, and where.
    fn overridden(&self, key: &str) -> Option<(String, &'a str)> {
        let Overrides { environment, prefix, flags_only } = self.overrides.as_ref()?;
        let name = format!("{prefix}_{}", key.to_uppercase());
        if let Some((flag, text)) = environment.flagged(&name) {
            return Some((flag.to_owned(), text));
        }
        let text = environment.get(&name).filter(|_| !flags_only)?;
        Some((format!("the environment variable {name}"), text))
    }

    /// Flags of the command line that stand for `PREFIX_KEY` win over what is written.
    pub(super) fn obey_flags(&mut self, prefix: &str, environment: &'a Environment) {
        self.overrides = Some(Overrides { environment, prefix: prefix.to_owned(), flags_only: true });
    }

    /// Something is wrong with a key of this section.
    pub(super) fn problem(&self, key: &str, what: impl std::fmt::Display) {
        self.report.in_file(&self.at(key), what);
    }

    /// Something is wrong with this section itself.
    pub(super) fn problem_here(&self, what: impl std::fmt::Display) {
        self.report.in_file(&self.place, what);
    }

    /// A table within this one, empty when it is not there. Overrides reach into it.
    pub(super) fn section(&mut self, key: &'static str) -> Section<'a> {
        self.known.push(key);
        let table = match self.table.remove(key) {
            None => Table::new(),
            Some(Value::Table(table)) => table,
            Some(other) => {
                self.problem(key, format_args!("is {}, but must be a table", other.type_str()));
                Table::new()
            }
        };
        let overrides = self.overrides.as_ref().map(|overrides| Overrides {
            environment: overrides.environment,
            prefix: format!("{}_{}", overrides.prefix, key.to_uppercase()),
            flags_only: overrides.flags_only,
        });
        Section { overrides, ..Section::new(self.at(key), table, self.report) }
    }

    /// A section whose keys variables `PILLARBOX_SECTION_KEY` override.
    pub(super) fn overridable(&mut self, key: &'static str, environment: &'a Environment) -> Section<'a> {
        let prefix = format!("PILLARBOX_{}", key.to_uppercase());
        let overrides = Overrides { environment, prefix, flags_only: false };
        Section { overrides: Some(overrides), ..self.section(key) }
    }

    /// The tables of an array of tables, in order.
    pub(super) fn sections(&mut self, key: &'static str) -> Vec<Section<'a>> {
        self.known.push(key);
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

    /// The tables whose names the user chose, each with its name.
    pub(super) fn named_sections(&mut self) -> Vec<(String, Section<'a>)> {
        let mut sections = Vec::new();
        for (name, value) in std::mem::take(&mut self.table) {
            match value {
                Value::Table(table) => {
                    let section = Section::new(self.at(&name), table, self.report);
                    sections.push((name, section));
                }
                _ => self.problem(&name, format_args!("must be a table; write [{}.NAME] above its keys", self.place)),
            }
        }
        sections
    }

    /// Every key has been asked for: what is left is unknown.
    pub(super) fn finish(self) {
        for key in self.table.keys() {
            let what = if self.place.is_empty() { "section" } else { "key" };
            self.problem(key, format_args!("is not a {what}{}", suggestion(key, self.known.iter().copied())));
        }
        self.warn_of_near_misses();
    }

    /// A misspelt variable is only told of: others may have names of the same beginning, Kubernetes for one.
    fn warn_of_near_misses(&self) {
        let Some(Overrides { environment, prefix, flags_only: false }) = &self.overrides else { return };
        let known: Vec<String> = self.known.iter().map(|key| format!("{prefix}_{}", key.to_uppercase())).collect();
        let begin = format!("{prefix}_");
        for name in environment.names(&begin).filter(|name| !known.iter().any(|known| name.starts_with(known.as_str())))
        {
            let key = &name[begin.len()..];
            if let Some(meant) = nearest(key, self.known.iter().copied()) {
                tracing::warn!(
                    "the environment variable {name} is not a setting; did you mean {begin}{}?",
                    meant.to_uppercase()
                );
            }
        }
    }
}
