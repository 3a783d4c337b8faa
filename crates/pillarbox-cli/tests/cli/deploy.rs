//! What stands in deploy/ fits the program: Prometheus takes its rules and our metrics, and both and the dashboard speak of
//! metrics that there are.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::home::Home;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

#[test]
fn prometheus_takes_the_alert_rules() {
    let rules = file("prometheus/alerts.yaml");
    let checked = Command::new("promtool").args(["check", "rules"]).arg(rules).output().expect("promtool is installed");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn a_deployed_example_marks_no_backlog_delivered() {
    for name in ["pillarbox.toml", "kubernetes/pillarbox.toml"] {
        let config = std::fs::read_to_string(file(name)).unwrap();
        let mut home = Home::with_config(&config);
        home.set("OPERATOR_PASSWORD", "not looked up by a sweep");
        let id = home.emit("1", &[]);
        let swept = home.run(&["sweep"]).succeeded();
        assert_eq!(home.state(&id), "parked", "{swept:?}\n{config}");
        // With the receiver that the comments suggest, it is a configuration.
        let with_receiver = config.lines().map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
            _ => format!("{line}\n"),
        });
        home.write("pillarbox.toml", &with_receiver.collect::<String>());
        let stats = home.json(&["stats"]);
        assert_eq!(stats["parked"][0]["on"], "unrouted", "{stats}");
    }
}

#[test]
fn the_alerts_of_the_log_fire_when_they_must() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/alerts.test.yaml");
    let tested = Command::new("promtool").args(["test", "rules"]).arg(tests).output().expect("promtool is installed");
    let told = [tested.stdout, tested.stderr].concat();
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&told));
}

/// The metrics that rules, dashboard and documentation speak of. Only a relay with source.kind = "wal" has those of the log.
const LOG: &str = "pillarbox_log_";

/// Prometheus takes these metrics, and what rules and dashboard speak of is among them.
pub(crate) fn check_metrics(text: &str) {
    check_metrics_of(text, |metric| !metric.starts_with(LOG));
}

/// As above, for the metrics of the write-ahead log.
pub(crate) fn check_log_metrics(text: &str) {
    check_metrics_of(text, |metric| metric.starts_with(LOG));
}

fn check_metrics_of(text: &str, expects: impl Fn(&str) -> bool) {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed");
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let checked = promtool.wait_with_output().unwrap();
    assert!(checked.status.success(), "{}\n{text}", String::from_utf8_lossy(&checked.stderr));

    let there: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let listed = metrics(&std::fs::read_to_string(file("../docs/metrics.md")).unwrap());
    let unlisted: Vec<_> = there.iter().filter(|metric| !listed.contains(**metric)).collect();
    assert!(unlisted.is_empty(), "docs/metrics.md leaves out {unlisted:?}");
    for name in ["prometheus/alerts.yaml", "grafana/pillarbox.json", "../docs/metrics.md"] {
        let spoken_of = std::fs::read_to_string(file(name)).unwrap();
        let metrics = metrics(&spoken_of);
        assert!(metrics.len() > 4, "{name}: {metrics:?}");
        let expected = metrics.iter().filter(|metric| expects(metric));
        let missing: Vec<_> = expected.filter(|metric| !there.contains(metric.as_str())).collect();
        assert!(missing.is_empty(), "{name} speaks of {missing:?}, and there are {there:?}");
    }
}

/// The metrics that a text speaks of.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let metrics = words.filter(|word| word.starts_with("pillarbox_"));
    metrics.map(|metric| metric.trim_end_matches("_bucket").to_owned()).collect()
}
