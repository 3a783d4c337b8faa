//! The environment, read once. It holds secrets, so it has no `Debug`.

use std::collections::BTreeMap;

/// The variables of the process, or those of a test.
#[derive(Default)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Variables that are not UTF-8 cannot be settings.
    pub(crate) fn of_process() -> Self {
        let utf8 =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self(utf8.collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The names that begin so.
    pub(crate) fn names<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.keys().map(String::as_str).filter(move |name| name.starts_with(prefix))
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}
