//! The application's side of a configuration: variables, flags and files. This crate only asks the application for them.

use std::io;
use std::path::Path;

/// Looks up the variables and files that a configuration names: `env:NAME`, `file:PATH` and `ca_file`.
///
/// An application that reads the process's environment and its files writes:
///
/// ```
/// use std::{io, path::Path};
///
/// struct Process;
///
/// impl pillarbox_sinks::config::Resolver for Process {
///     fn variable(&self, name: &str) -> Option<String> {
///         std::env::var(name).ok()
///     }
///
///     fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
///         std::fs::read(path)
///     }
/// }
/// ```
pub trait Resolver {
    /// Returns the value of an environment variable.
    fn variable(&self, name: &str) -> Option<String>;

    /// Returns the content of a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Returns the command line's flag that stands for this variable, and its value. A flag wins over the variable.
    fn flag(&self, variable: &str) -> Option<(String, String)> {
        let _ = variable;
        None
    }

    /// Returns the names of the variables with this prefix, to find misspelt ones. None by default.
    fn names(&self, prefix: &str) -> Vec<String> {
        let _ = prefix;
        Vec::new()
    }
}
