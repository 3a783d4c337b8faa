//! What is wrong with a configuration: each problem with its place and what to do, all of them at once, and never a
//! secret's value.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;

/// A configuration that cannot be used. The program ends with exit code 2.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigError(Vec<String>);

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
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self(vec![problem.into()])
    }

    pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        Self::new(format!("{}: the configuration cannot be read: {error}; check --config", path.display()))
    }

    /// Says the line and not the text: a broken line may be the one with the secret.
    pub(super) fn syntax(file: Option<&Path>, text: &str, error: &toml::de::Error) -> Self {
        let line =
            error.span().and_then(|span| text.get(..span.start)).map_or(1, |before| before.matches('\n').count() + 1);
        let file = file.unwrap_or(Path::new("the configuration")).display();
        Self::new(format!("{file}:{line}: this is not TOML: {}", error.message()))
    }
}

/// Collects problems while a configuration is lowered.
pub(super) struct Report {
    file: String,
    problems: RefCell<Vec<String>>,
}

impl Report {
    pub(super) fn new(file: Option<&Path>) -> Self {
        let file = file.map_or_else(String::new, |file| format!("{}: ", file.display()));
        Self { file, problems: RefCell::default() }
    }

    /// A problem with a key of the file.
    pub(super) fn in_file(&self, place: &str, what: impl fmt::Display) {
        self.problems.borrow_mut().push(format!("{}{place} {what}", self.file));
    }

    /// A problem with what was said in place of the file: a variable of the environment, or a flag.
    pub(super) fn elsewhere(&self, place: &str, what: impl fmt::Display) {
        self.problems.borrow_mut().push(format!("{place} {what}"));
    }

    pub(super) fn into_result(self) -> Result<(), ConfigError> {
        let problems = self.problems.into_inner();
        if problems.is_empty() { Ok(()) } else { Err(ConfigError(problems)) }
    }
}

/// `; did you mean …?`, if one of the known names is near enough, else which there are.
pub(crate) fn suggestion<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(given, known.iter().copied()) {
        Some(name) => format!("; did you mean {name}?"),
        None if known.is_empty() => "; there is none".to_owned(),
        None => format!("; there are: {}", known.join(", ")),
    }
}

/// The known name that was most likely meant.
pub(super) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const NEAR: f64 = 0.8;
    known
        .into_iter()
        .map(|name| (likeness(&given.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

/// One slip of the finger is near, however short the word: `ulr` for `url`.
fn likeness(given: &str, known: &str) -> f64 {
    if strsim::damerau_levenshtein(given, known) <= 1 { 0.99 } else { strsim::jaro_winkler(given, known) }
}
