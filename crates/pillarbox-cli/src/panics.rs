//! The message of a panic: a defect of the program, in words for people. Places in the source of dependencies mean nothing to
//! them; `RUST_BACKTRACE=1` prints the standard message with the backtrace.

use std::any::Any;
use std::io::Write;
use std::panic::{self, Location};

use crate::terminal::escaped_lines;

/// Replaces the standard message, which begins with a thread and a path on the machine of the build.
pub(crate) fn install() {
    let asked = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    if asked {
        return;
    }
    panic::set_hook(Box::new(|panic| {
        let text = told(panic.payload(), panic.location());
        // There is nowhere to report a failure of this.
        let _ = writeln!(std::io::stderr().lock(), "{}", escaped_lines(&text));
    }));
}

fn told(payload: &dyn Any, place: Option<&Location<'_>>) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let place = place.and_then(|place| own(place.file()).map(|file| format!(" ({file}:{})", place.line())));
    format!(
        "error: internal error: {text}{}; this is a defect of pillarbox: please report it, with the output of \
         RUST_BACKTRACE=1",
        place.unwrap_or_default()
    )
}

/// Returns the path within this repository; `None` for dependencies and the standard library.
fn own(file: &str) -> Option<&str> {
    let at = file.rfind("crates/pillarbox")?;
    (!file.contains("/registry/")).then(|| &file[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_shows_no_place_in_a_dependency() {
        let here = told(&"it broke", Some(Location::caller()));
        assert!(here.starts_with("error: internal error: it broke (crates/pillarbox-cli/src/panics.rs:"), "{here}");
        for file in [
            "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/tokio-1.0/src/runtime/mod.rs",
            "/home/ann/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/crates/pillarbox-0.1.0/src/relay.rs",
            "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/option.rs",
        ] {
            assert_eq!(own(file), None, "{file}");
        }
        assert_eq!(own("/work/crates/pillarbox/src/relay.rs"), Some("crates/pillarbox/src/relay.rs"));
        assert!(told(&7, None).contains("internal error: no message; this"), "{}", told(&7, None));
    }
}
