//! The short form of `make simulate`: real relays on simulated time, each run from its own seed.

use pillarbox_testkit::simulation;

/// What a seed found can be looked at again.
#[test]
fn a_seed_tells_the_same_story_each_time() {
    for seed in 0..12 {
        let (one, other) = (simulation::run(seed), simulation::run(seed));
        assert_eq!(one.lines, other.lines, "seed {seed}");
        assert!(one.events > 0 && one.sends > 0, "seed {seed} did nothing");
    }
}
