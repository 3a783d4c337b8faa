//! The environment, read once. It holds secrets, so it has no `Debug`.

use std::collections::BTreeMap;

/// The variables of the process, or those of a test, and the flags of the command line that stand for some of them.
#[derive(Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
    /// By the name of the variable: the flag and its value.
    flags: BTreeMap<&'static str, (&'static str, String)>,
}

impl Environment {
    /// Variables that are not UTF-8 cannot be settings.
    pub(crate) fn of_process() -> Self {
        let utf8 =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self { variables: utf8.collect(), ..Self::default() }
    }

    /// A flag that wins over this variable.
    pub(crate) fn flag(&mut self, variable: &'static str, flag: &'static str, value: String) {
        self.flags.insert(variable, (flag, value));
    }

    /// What a flag says in place of this variable, and the flag.
    pub(crate) fn flagged(&self, variable: &str) -> Option<(&'static str, &str)> {
        self.flags.get(variable).map(|(flag, value)| (*flag, value.as_str()))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// The names that begin so.
    pub(crate) fn names<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.variables.keys().map(String::as_str).filter(move |name| name.starts_with(prefix))
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { variables, ..Self::default() }
    }
}
