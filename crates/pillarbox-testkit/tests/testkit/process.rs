//! Programs that are started, read and ended.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use pillarbox_testkit::Program;

use crate::PATIENCE;

fn shell(script: &str) -> Program {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    Program::start(command)
}

#[tokio::test]
async fn a_program_is_read_and_stops_in_good_order() {
    let script = "trap 'echo bye; exit 3' TERM; echo ready on 8800; echo trouble >&2; while :; do sleep 0.01; done";
    let mut program = shell(script);
    assert_eq!(program.wait_for_line("ready", PATIENCE).await.expect("a line"), "ready on 8800");
    program.wait_for_line("trouble", PATIENCE).await.expect("errors are read too");

    let status = program.terminate(PATIENCE).await.expect("it ends");
    assert_eq!(status.code(), Some(3));
    program.wait_for_line("bye", PATIENCE).await.expect("what it wrote last is read");
}

#[tokio::test]
async fn a_killed_program_has_no_last_word() {
    let mut program = shell("trap 'echo bye' TERM EXIT; echo ready; while :; do sleep 0.01; done");
    program.wait_for_line("ready", PATIENCE).await.expect("a line");
    program.kill().await;

    let status = program.wait(PATIENCE).await.expect("it has ended");
    assert_eq!(status.signal(), Some(9));
    let missing = program.wait_for_line("bye", PATIENCE).await.expect_err("nothing was said").to_string();
    assert!(missing.contains("ended without") && missing.contains("ready"), "{missing}");
}
