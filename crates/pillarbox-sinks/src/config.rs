//! Reads destinations from TOML: tables, values, secrets, and the report of everything that is wrong.
//!
//! A [`Section`] is one table. A reader takes each key by its type; [`Section::finish`] reports the keys that were not
//! taken and suggests the right name. A [`Report`] collects all problems, so that one run shows all of them. This module
//! reads no file and no environment; the application provides a [`Resolver`] that does.

mod report;
mod resolver;
mod secret;
mod section;
pub mod shown;
mod value;

pub use self::report::{ConfigError, Report, suggestion};
pub use self::resolver::Resolver;
pub use self::secret::SecretRef;
pub use self::section::Section;
pub use self::value::{FromConfig, Json, Size, duration, positive, some_bytes, some_time};
