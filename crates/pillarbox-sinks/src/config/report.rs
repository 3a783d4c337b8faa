//! Problems of a configuration: each with its place and what to do, all of them at once, and never a secret's value.

use std::cell::RefCell;
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
}

/// One problem: the key that it is about, and the whole sentence.
#[derive(Debug)]
pub(super) struct Problem {
    place: String,
    text: String,
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
        self.add(Problem { place: place.to_owned(), text: format!("{}{place} {what}", self.file) });
    }

    /// Adds a problem with a value that replaces a key of the file: an environment variable, or a flag.
    pub fn elsewhere(&self, place: &str, what: impl fmt::Display) {
        self.add(Problem { place: String::new(), text: format!("{place} {what}") });
    }

    /// Ends the report.
    ///
    /// # Errors
    /// All problems, if there are any.
    pub fn into_result(self) -> Result<(), ConfigError> {
        let problems = self.into_problems();
        if problems.is_empty() {
            return Ok(());
        }
        Err(ConfigError(problems.into_iter().map(|problem| problem.text).collect()))
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
