//! The short form of `make simulate`: real relays on simulated time, each run from its own seed.

use std::process::Command;

use pillarbox_testkit::simulation;

/// The store under the simulated relays behaves as the real ones do. Rooms of the suite that are about people's side (list,
/// people, act, look_up) or the schema (migrate) stay out: no relay uses them, and the simulated store does not have them.
mod store {
    pillarbox_testkit::relay_suite!(pillarbox_testkit::conformance::SimulatedOutbox::create);
}

/// What a seed found can be looked at again.
#[test]
fn a_seed_tells_the_same_story_each_time() {
    for seed in 0..12 {
        let (one, other) = (simulation::run(seed), simulation::run(seed));
        assert_eq!(one.lines, other.lines, "seed {seed}");
        assert!(one.events > 0 && one.sends > 0, "seed {seed} did nothing");
    }
}

/// Every promise holds in each of these runs, and nobody waits for somebody else's trouble.
#[test]
fn two_thousand_runs_break_no_promise() {
    let output = Command::new(env!("CARGO_BIN_EXE_simulate"))
        .args(["--first", "1000", "--runs", "2000"])
        .output()
        .expect("simulate can be started");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("2000 runs"), "{out}");
}
