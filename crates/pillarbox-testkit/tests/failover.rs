//! The short form of `make failover`: one or two failovers each way, and one network that swallows.

use std::process::Command;

fn failover(way: &str, rounds: u32) {
    let output = Command::new(env!("CARGO_BIN_EXE_failover"))
        .args(["--way", way, "--failovers", &rounds.to_string()])
        .output()
        .expect("failover can be started");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("nothing lost"), "{out}");
}

#[test]
fn a_failover_among_several_hosts_loses_nothing() {
    failover("several-hosts", 2);
}

#[test]
fn a_failover_behind_haproxy_loses_nothing() {
    failover("haproxy", 1);
}

#[test]
fn a_failover_with_a_slot_that_the_standby_copies_loses_nothing() {
    failover("slot", 1);
}

#[test]
fn a_network_that_swallows_loses_nothing() {
    failover("swallow", 1);
}
