//! The short form of `make torture`: the program under kill -9, crashes and a failing receiver.

use std::process::Command;

/// The program `torture` runs the program `pillarbox`, which stands beside it when the whole workspace is built.
fn torture(database: &str, kills: u32, more: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_torture"))
        .args(["--database", database, "--kills", &kills.to_string()])
        .args(more)
        .output()
        .expect("torture can be started");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("nothing lost"), "{out}");
}

#[test]
fn a_short_torture_on_postgresql_loses_nothing() {
    torture("postgres", 10, &[]);
}

#[test]
fn a_short_torture_on_sqlite_loses_nothing() {
    torture("sqlite", 8, &[]);
}

#[test]
fn a_short_torture_on_postgresql_keeps_the_order() {
    torture("postgres", 8, &["--order"]);
}

#[test]
fn a_short_torture_on_sqlite_keeps_the_order() {
    torture("sqlite", 6, &["--order"]);
}

#[test]
fn a_short_torture_with_a_fan_out_loses_nothing_at_either_receiver() {
    torture("postgres", 6, &["--fan-out", "--on-delivered", "delete"]);
}

#[test]
fn a_short_torture_through_the_log_loses_nothing() {
    torture("postgres", 10, &["--source", "wal", "--on-delivered", "delete"]);
}
