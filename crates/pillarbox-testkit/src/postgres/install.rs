//! The PostgreSQL installations of this machine: their programs, their user, and an empty data directory.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use tempfile::TempDir;

const DEBIAN: &str = "/usr/lib/postgresql";
/// The versions that `scripts/setup postgresql` installs, each in a directory of its own.
const OTHERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.tools/postgresql");
/// The environment variable that chooses the version of all servers that do not need a certain one.
const VERSION: &str = "PILLARBOX_TEST_POSTGRES_VERSION";

/// The programs of one version.
#[derive(Debug, Clone)]
pub(super) struct Install {
    /// Their directory; `None` if they are in PATH.
    programs: Option<PathBuf>,
    /// The directory of its libraries, if the system's libpq may be that of another version.
    libraries: Option<PathBuf>,
}

impl Install {
    /// Returns the version that the environment chooses, or Debian's newest.
    pub(super) fn chosen() -> Self {
        match env::var(VERSION).ok().filter(|version| !version.is_empty()) {
            Some(version) => Self::version(version.parse().unwrap_or_else(|_| panic!("{VERSION} is {version}"))),
            None => Self { programs: debian(), libraries: None },
        }
    }

    /// Returns a certain major version.
    pub(super) fn version(version: u32) -> Self {
        let programs = Path::new(OTHERS).join(version.to_string()).join("bin");
        // Without links, whose directory the user `postgres` may be unable to enter.
        let programs = programs.canonicalize();
        let programs = programs
            .unwrap_or_else(|_| panic!("PostgreSQL {version} is missing: run `scripts/setup postgresql {version}`"));
        Self { libraries: Some(programs.with_file_name("lib")), programs: Some(programs) }
    }

    /// Returns a command that runs one of PostgreSQL's programs as PostgreSQL's user, inside `directory`.
    pub(super) fn command(&self, program: &str, directory: &Path) -> Command {
        let mut command = command(&self.find(program).to_string_lossy(), directory);
        if let Some(libraries) = &self.libraries {
            // A standby loads libpq at run time, and the paths in these binaries are those of the machine that built them.
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }

    fn find(&self, program: &str) -> PathBuf {
        self.programs.as_ref().map_or_else(|| program.into(), |programs| programs.join(program))
    }

    /// Creates a data directory, as `initdb` does, at `data`, inside `directory`.
    ///
    /// `initdb` takes longer than the rest of a server's start, so it runs once per machine and version, and its result is copied.
    pub(super) fn init(&self, data: &Path, directory: &Path) {
        let template = self.template();
        if !template.exists() {
            run(self
                .command("initdb", directory)
                .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "-D"])
                .arg(data));
            let draft = template.with_extension(format!("{:x}", rand::random::<u64>()));
            run(command("cp", directory).arg("-a").arg(data).arg(&draft));
            // Another process may have been faster. A directory with content is not replaced; both are the same.
            if fs::rename(&draft, &template).is_err() {
                fs::remove_dir_all(&draft).expect("the draft can be removed");
            }
        } else {
            run(command("cp", directory).arg("-a").arg(&template).arg(data));
        }
    }

    fn template(&self) -> PathBuf {
        let version = Command::new(self.find("postgres")).arg("--version").output().expect(MISSING).stdout;
        let version = String::from_utf8_lossy(&version);
        let version = version.split_whitespace().nth(2).expect("`postgres --version` says which");
        env::temp_dir().join(format!("pillarbox-initdb-{version}-{}", user_id()))
    }
}

const MISSING: &str = "PostgreSQL is missing: run `make setup`";

/// Returns the programs of Debian's newest version. Debian keeps each version in its own directory outside of PATH.
fn debian() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let newest = versions.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).max()?;
    Some(Path::new(DEBIAN).join(newest.to_string()).join("bin")).filter(|programs| programs.exists())
}

/// Returns a command that runs a program as PostgreSQL's user, inside `directory`.
///
/// PostgreSQL refuses to run as root, so root becomes the user `postgres`. `setpriv` replaces itself by the program, so the
/// child's process id is the program's.
pub(crate) fn command(program: &str, directory: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir(directory).stdin(Stdio::null());
    command
}

/// Creates a temporary directory that belongs to PostgreSQL's user.
pub(crate) fn directory() -> TempDir {
    let directory = TempDir::with_prefix("pillarbox-postgres-").expect("a temporary directory can be made");
    if is_root() {
        run(Command::new("chown").arg("postgres:").arg(directory.path()));
    }
    directory
}

/// Moves a file to a place where only PostgreSQL's user may read it.
pub(super) fn give(file: &Path, place: &Path) {
    let mut install = Command::new("install");
    install.args(["-m", "600"]);
    if is_root() {
        install.args(["-o", "postgres"]);
    }
    run(install.arg(file).arg(place));
    fs::remove_file(file).expect("an own file can be removed");
}

/// Returns whether this process is root's.
pub(crate) fn is_root() -> bool {
    user_id() == 0
}

fn user_id() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |process| process.uid())
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; run `make setup`"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {errors}", output.status);
}
