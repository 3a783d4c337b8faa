//! Problems of a configuration: each with its place and what to do, all of them at once, and never a secret's value.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// A configuration that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError(Vec<String>);

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => f.write_str(only),
            several => {
                write!(f, "the configuration has {} problems:", several.len())?;
                several.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl ConfigError {
    /// Returns an error with one problem.
    pub fn new(problem: impl Into<String>) -> Self {
        Self(vec![problem.into()])
    }

    /// Returns the error for text that is not TOML. The message has the line's number and not its text: a broken line may
    /// contain a secret.
    #[must_use]
    pub fn syntax(file: Option<&Path>, text: &str, error: &toml::de::Error) -> Self {
        let line =
            error.span().and_then(|span| text.get(..span.start)).map_or(1, |before| before.matches('\n').count() + 1);
        let file = file.unwrap_or(Path::new("the configuration")).display();
        Self::new(format!("{file}:{line}: invalid TOML: {}", error.message()))
    }
}

/// Collects problems while a configuration is read.
#[derive(Debug, Default)]
pub struct Report {
    file: String,
    problems: RefCell<Vec<Problem>>,
    /// The places of all keys that were read: `relay.retry.base`.
    known: RefCell<BTreeSet<String>>,
}

/// One problem: the key that it is about, and the whole sentence.
#[derive(Debug)]
pub(super) struct Problem {
    place: String,
    text: String,
    /// Set for a key that nobody reads. Its suggestion is made last, when all keys are known.
    unknown: Option<Unknown>,
}

/// A key that nobody reads, with the known keys of its table.
#[derive(Debug)]
struct Unknown {
    key: String,
    siblings: Vec<&'static str>,
}

impl Problem {
    /// Returns whether the problem is about this key, or about a key in the key's table.
    pub(super) fn is_about(&self, key: &str) -> bool {
        self.place.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

impl Report {
    /// Returns a report without problems. Every problem with a key names the file.
    #[must_use]
    pub fn new(file: Option<&Path>) -> Self {
        let file = file.map_or_else(String::new, |file| format!("{}: ", file.display()));
        Self { file, ..Self::default() }
    }

    /// Adds a problem with a key of the file.
    pub fn in_file(&self, place: &str, what: impl fmt::Display) {
        self.add(Problem { place: place.to_owned(), text: format!("{}{place} {what}", self.file), unknown: None });
    }

    /// Adds a key of the file that nobody reads. `what` is `is not a key`.
    pub(super) fn unknown(&self, place: String, key: &str, siblings: &[&'static str], what: impl fmt::Display) {
        let text = format!("{}{place} {what}", self.file);
        let unknown = Some(Unknown { key: key.to_owned(), siblings: siblings.to_vec() });
        self.add(Problem { place, text, unknown });
    }

    /// Remembers the place of a key that somebody reads.
    pub(super) fn know(&self, place: String) {
        self.known.borrow_mut().insert(place);
    }

    /// Adds a problem with a value that replaces a key of the file: an environment variable, or a flag.
    pub fn elsewhere(&self, place: &str, what: impl fmt::Display) {
        self.add(Problem { place: String::new(), text: format!("{place} {what}"), unknown: None });
    }

    /// Ends the report.
    ///
    /// # Errors
    /// All problems, if there are any.
    pub fn into_result(self) -> Result<(), ConfigError> {
        let known = self.known.take();
        let problems = self.into_problems();
        if problems.is_empty() {
            return Ok(());
        }
        let told = |Problem { place, text, unknown }| match unknown {
            Some(unknown) => text + &unknown.suggestion(&place, &known),
            None => text,
        };
        Err(ConfigError(problems.into_iter().map(told).collect()))
    }

    /// Returns an empty report about the same file.
    pub(super) fn apart(&self) -> Self {
        Self { file: self.file.clone(), ..Self::default() }
    }

    pub(super) fn add(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }
}

impl Unknown {
    /// Returns the key that was most likely meant: one of the same name in a table within this one (`relay.max_attempts` for
    /// `relay.retry.max_attempts`), a similar one of this table, or one of the same name in another table.
    fn suggestion(&self, place: &str, known: &BTreeSet<String>) -> String {
        let Self { key, siblings } = self;
        let table = &place[..place.len() - key.len()];
        let end = format!(".{key}");
        let namesakes = known.iter().filter(|known| known.ends_with(&end) && known.as_str() != place);
        // Routes have numbers instead of names, which mean nothing to a reader of the file.
        let (within, elsewhere): (Vec<&str>, Vec<&str>) = namesakes
            .map(String::as_str)
            .filter(|known| !known.contains('['))
            .partition(|known| !table.is_empty() && known.starts_with(table));
        match (&within[..], &elsewhere[..]) {
            ([_, ..], _) => format!("; did you mean {}?", within.join(" or ")),
            ([], [_] | [_, _]) if nearest(key, siblings.iter().copied()).is_none() => {
                format!("; did you mean {}?", elsewhere.join(" or "))
            }
            _ => suggestion(key, siblings.iter().copied()),
        }
    }
}

/// Returns `; did you mean …?` if one of the known names is near enough, else the list of them.
pub fn suggestion<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(given, known.iter().copied()) {
        Some(name) => format!("; did you mean {name}?"),
        None if known.is_empty() => "; none is defined".to_owned(),
        None => format!("; choose one of: {}", known.join(", ")),
    }
}

/// Returns the known name that was most likely meant.
pub(super) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const NEAR: f64 = 0.8;
    known
        .into_iter()
        .map(|name| (likeness(&given.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

/// Returns how similar two names are. One typing error counts as similar, however short the word: `ulr` for `url`.
fn likeness(given: &str, known: &str) -> f64 {
    if strsim::damerau_levenshtein(given, known) <= 1 { 0.99 } else { strsim::jaro_winkler(given, known) }
}
