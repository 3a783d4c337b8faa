//! The environment, read once. It contains secrets, so it has no `Debug`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use pillarbox_sinks::config::Resolver;

/// The variables of the process, or those of a test, and the flags of the command line that replace some of them.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
    /// The flag and its value, by the name of the variable.
    flags: BTreeMap<&'static str, (&'static str, String)>,
}

impl Environment {
    /// Reads the variables of the process. Variables that are not UTF-8 cannot be settings.
    pub(crate) fn of_process() -> Self {
        let utf8 =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self { variables: utf8.collect(), ..Self::default() }
    }

    /// Adds a flag that wins over this variable.
    pub(crate) fn flag(&mut self, variable: &'static str, flag: &'static str, value: String) {
        self.flags.insert(variable, (flag, value));
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }
}

/// The one place where secrets and certificates are read from files.
impl Resolver for Environment {
    fn variable(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn flag(&self, variable: &str) -> Option<(String, String)> {
        self.flags.get(variable).map(|(flag, value)| ((*flag).to_owned(), value.clone()))
    }

    fn names(&self, prefix: &str) -> Vec<String> {
        self.variables.keys().filter(|name| name.starts_with(prefix)).cloned().collect()
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { variables, ..Self::default() }
    }
}
