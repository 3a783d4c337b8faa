//! The terminal: `top` in a real one, by tmux; dead letters, replay and fail; tables that fit; completions and manual pages.

use std::path::PathBuf;
use std::process::Command;

use pillarbox_testkit::process::Signal;
use pillarbox_testkit::receiver::{Answer, Receiver};
use pillarbox_testkit::wait_until;

use crate::delivering::{PATIENCE, to_receiver};
use crate::home::{DISCARD, Home};
use crate::listening::start;

/// A terminal of this size in which a shell runs something.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    fn open(home: &Home, (width, height): (u16, u16), script: &str) -> Self {
        let terminal = Self { socket: home.path("terminal") };
        let program = env!("CARGO_BIN_EXE_pillarbox");
        let script = format!("cd '{}'; pillarbox() {{ '{program}' \"$@\"; }}; {script}; cat", home.path(".").display());
        let (width, height) = (width.to_string(), height.to_string());
        terminal.run(&["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, &script]);
        terminal
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-u").arg("-S").arg(&self.socket).args(arguments).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("LC_ALL", "C.UTF-8").env("SHELL", "/bin/sh");
        let done = command.output().expect("tmux runs; `make setup` installs it");
        assert!(done.status.success(), "tmux {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    fn press(&self, key: &str) {
        self.run(&["send-keys", key]);
    }

    fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"])
    }

    async fn shows(&self, part: &str) -> String {
        let mut screen = String::new();
        wait_until(&format!("the terminal shows {part}"), PATIENCE, async || {
            screen = self.screen();
            screen.contains(part)
        })
        .await;
        screen
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn top_shows_the_outbox_live_and_pauses_after_a_yes() {
    let receiver = Receiver::start().await;
    let home = to_receiver(&receiver, "");
    let mut relay = start(&home, &["relay"]).await;
    home.emit("1", &[]);
    receiver.wait_for(1, PATIENCE).await.unwrap();
    let terminal = Terminal::open(&home, (80, 24), "pillarbox top --every 100ms; echo ended $?; stty -a");
    let screen = terminal.shows("idle").await;
    for part in ["pillarbox", "due 0", "latency p50", "runner", "healthy", "no dead letters in 24 hours", "q quit"] {
        assert!(screen.contains(part), "{part} in\n{screen}");
    }
    let paused = || home.json(&["destinations", "list"])[0]["paused_by"].is_string();
    terminal.press("p");
    terminal.shows("pause runner?").await;
    terminal.press("n");
    terminal.shows("q quit").await;
    assert!(!paused());
    terminal.press("p");
    terminal.shows("pause runner?").await;
    terminal.press("y");
    terminal.shows("runner is paused: its events are parked").await;
    assert!(paused());
    terminal.run(&["resize-window", "-x", "150", "-y", "40"]);
    terminal.shows("paused by ").await;
    terminal.press("p");
    terminal.shows("resume runner?").await;
    terminal.press("y");
    terminal.shows("runner is resumed").await;
    assert!(!paused());
    terminal.press("?");
    terminal.shows("choose a destination").await;
    terminal.press("x");
    terminal.press("q");
    let screen = terminal.shows("ended 0").await;
    assert!(terminal.shows("icanon").await.contains(" icanon") && !screen.contains("runner"), "{screen}");
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn top_fits_into_60_columns() {
    let receiver = Receiver::start().await;
    let mut home = to_receiver(&receiver, "");
    home.write("a.database.with.a.name.that.would.fill.the.line.of.its.own", "");
    home.set("PILLARBOX_DATABASE_URL", "sqlite://a.database.with.a.name.that.would.fill.the.line.of.its.own");
    home.emit("1", &[]);
    let mut relay = start(&home, &["relay"]).await;
    receiver.wait_for(1, PATIENCE).await.unwrap();
    let url = "export PILLARBOX_DATABASE_URL=sqlite://a.database.with.a.name.that.would.fill.the.line.of.its.own";
    let terminal = Terminal::open(&home, (60, 24), &format!("{url}; pillarbox top --every 100ms; echo ended $?"));
    let screen = terminal.shows("idle").await;
    // Headings and keys are whole, and the time stands beside the name of the database.
    for part in ["HEALTH", "WAITING", "OLDEST", "/MIN", "FAILED", "HEARD", "DESTINATIONS", "runner", "? help"] {
        assert!(screen.contains(part), "{part} in\n{screen}");
    }
    let head = screen.lines().next().unwrap();
    assert!(head.starts_with("pillarbox sqlite://a.database") && head.ends_with('Z') && head.contains(' '), "{screen}");
    assert!(head[..head.len() - 9].ends_with(' '), "{screen}");
    terminal.press("p");
    assert!(terminal.shows("pause runner?").await.contains("[y/n]"));
    terminal.press("n");
    terminal.press("?");
    assert!(terminal.shows("choose a destination").await.contains("sending+queued."));
    terminal.press("x");
    terminal.press("q");
    terminal.shows("ended 0").await;
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_leaves_the_terminal_as_it_was() {
    let home = Home::with_config(DISCARD);
    home.emit("1", &[]);
    let script = format!(
        "sh -c 'echo $$ > pid; exec {} top --every 100ms'; echo ended $?; stty -a",
        env!("CARGO_BIN_EXE_pillarbox")
    );
    let terminal = Terminal::open(&home, (80, 24), &script);
    terminal.shows("no relay is running").await;
    let pid = std::fs::read_to_string(home.path("pid")).unwrap();
    Signal::Terminate.send(pid.trim().parse().unwrap());
    terminal.shows("ended 0").await;
    let screen = terminal.shows("icanon").await;
    assert!(!screen.contains("-icanon") && !screen.contains("-echo ") && !screen.contains("nowhere"), "{screen}");
}

#[test]
fn top_without_a_terminal_prints_one_frame_if_it_is_told_to() {
    let home = Home::with_config(DISCARD);
    home.emit("1", &[]);
    let refused = home.run(&["top"]);
    assert!(refused.code == 2 && refused.err.contains("add --once"), "{refused:?}");
    let printed = home.run(&["top", "--once", "--width", "80"]).succeeded().out;
    assert!(printed.contains("due 1") && printed.contains("nowhere"), "{printed}");
    assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
    assert!(!printed.contains('\u{1b}'), "{printed}");
    let answer = home.json(&["top", "--once"]);
    assert_eq!((&answer["depth"]["due"], &answer["destinations"][0]["health"]), (&1.into(), &"unknown".into()));
}

fn retry<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["dead-letters", "retry"], more].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_grouped_and_a_group_is_tried_again() {
    let receiver = Receiver::start().await;
    receiver.answer_with(|_| Answer::status(410).body("no more"));
    let home = to_receiver(&receiver, "");
    let ids: Vec<String> = (1..=3).map(|number| home.emit(&number.to_string(), &[])).collect();
    home.run(&["sweep"]).succeeded();
    let letters = home.json(&["dead-letters"]);
    let [group] = &letters["groups"].as_array().unwrap()[..] else { panic!("{letters}") };
    assert_eq!((&group["of"]["count"], &group["of"]["destination"]), (&3.into(), &"runner".into()));
    let name = group["group"].as_str().unwrap();
    let shown = home.run(&["dead-letters"]).succeeded().out;
    assert!(shown.contains(name) && shown.contains("410") && shown.contains("order.placed"), "{shown}");
    assert!(home.run(&["dead-letters", "--type", "invoice.*"]).succeeded().out.contains("no dead letters"));

    assert_eq!(home.json(&retry(&["--group", name, "--dry-run"]))["would_retry"], 3);
    assert_eq!(home.json(&retry(&["--destination", "mail", "--dry-run"]))["would_retry"], 0);
    for (arguments, why) in [
        (retry(&[]), "choose the events"),
        (retry(&["--all"]), "3 failed events of the last 30days would be retried; add --yes"),
        (retry(&["--group", "00000000", "--yes"]), "there is no group 00000000"),
    ] {
        let refused = home.run(&arguments);
        assert!(refused.code == 2 && refused.err.contains(why), "{refused:?}");
    }
    receiver.answer_with(|_| Answer::ok());
    let retried = home.json(&retry(&["--group", name, "--rate", "1000", "--yes"]));
    assert_eq!(
        (&retried["changed"], &retried["refused"], &retried["cancelled"]),
        (&3.into(), &0.into(), &false.into())
    );
    home.run(&["sweep"]).succeeded();
    assert!(ids.iter().all(|id| home.state(id) == "delivered"));
    assert_eq!(home.run(&retry(&["--all"])).succeeded().out, "no matching dead letters in the last 30days\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_replayed_and_given_up() {
    let receiver = Receiver::start().await;
    let home = to_receiver(&receiver, "");
    let id = home.emit("1", &[]);
    let early = home.run(&["events", "replay", &id]);
    assert!(early.code == 1 && early.out.contains("is not delivered yet"), "{early:?}");
    home.run(&["sweep"]).succeeded();
    let replayed = home.json(&["events", "replay", &id]);
    let anew = replayed["events"][0]["as"].as_str().unwrap();
    home.run(&["sweep"]).succeeded();
    assert_eq!(home.state(anew), "delivered");
    assert_eq!(receiver.distinct(), 2);

    let unrouted = home.json(&["emit", "Order", "2", "invoice.sent"])["id"].as_str().unwrap().to_owned();
    let failed = home.run(&["events", "fail", &unrouted, "--reason", "nobody wants it"]).succeeded();
    assert_eq!(failed.out, "1 event failed now\n");
    let shown = home.run(&["events", "show", &unrouted]).succeeded().out;
    assert!(shown.contains("failed") && shown.contains("nobody wants it"), "{shown}");
    let again = home.run(&["events", "fail", &unrouted, &id]);
    assert!(
        again.code == 1 && again.out.contains("has already failed") && again.out.contains("is already delivered"),
        "{again:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_fit_into_the_terminal() {
    let home = Home::with_config(DISCARD);
    let kind = "a.type.of.events.that.has.a.long.name.and.would.not.fit.beside.the.others";
    let id = home.json(&["emit", "AnAggregateOfSomeLength", "with-an-id-of-some-length", kind])["id"].clone();
    let terminal = Terminal::open(&home, (110, 12), "pillarbox events list");
    let screen = terminal.shows(id.as_str().unwrap()).await;
    let row = screen.lines().find(|line| line.contains(id.as_str().unwrap())).unwrap();
    assert!(
        row.contains('…') && row.contains("due") && screen.lines().filter(|line| !line.is_empty()).count() == 2,
        "{screen}"
    );
}

#[test]
fn shells_complete_and_manuals_are_written() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = home.run(&["completions", shell]).succeeded().out;
        assert!(script.contains("PILLARBOX_COMPLETE"), "{shell}: {script}");
    }
    assert_eq!(completed(&home, "dead-"), ["dead-letters"]);
    assert!(completed(&home, "relay --log").contains(&"--log-format".to_owned()));

    let page = home.run(&["man"]).succeeded().out;
    assert!(page.contains(".TH pillarbox 1") && page.contains("dead\\-letters"), "{page}");
    let pages = home.json(&["man", "--dir", "man"]);
    let has =
        |name: &str| pages["pages"].as_array().unwrap().contains(&name.into()) && home.path("man").join(name).exists();
    assert!(has("pillarbox.1") && has("pillarbox-top.1") && has("pillarbox-events-list.1"), "{pages}");
}

/// Returns the words with which bash continues this command line.
fn completed(home: &Home, line: &str) -> Vec<String> {
    home.write("script", &home.run(&["completions", "bash"]).succeeded().out);
    std::fs::create_dir_all(home.path("bin")).unwrap();
    let program = home.path("bin/pillarbox");
    let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pillarbox"), &program);
    let script = "source ./script; COMP_WORDS=(pillarbox $LINE); [[ $LINE == *' ' ]] && COMP_WORDS+=('')
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_TYPE=9
        $(complete -p pillarbox | sed 's/.*-F \\([^ ]*\\).*/\\1/') pillarbox \"${COMP_WORDS[COMP_CWORD]}\"
        printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).current_dir(home.path(".")).env_clear().env("LINE", line);
    let path = format!("{}:/usr/bin:/bin", home.path("bin").display());
    let done = bash.env("PATH", path).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap().lines().map(|word| word.trim().to_owned()).collect()
}

#[test]
fn shells_complete_the_destinations_of_the_configuration() {
    let home = Home::with_config(DISCARD);
    home.write("other.toml", "[destinations.mail]\nkind = \"discard\"\n[destinations.runner]\nkind = \"discard\"\n");
    let names = |line: &str| {
        let words = completed(&home, line).into_iter();
        words.filter(|word| !word.starts_with("--") && !word.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(names("destinations pause "), ["nowhere"]);
    assert_eq!(names("--config other.toml destinations resume "), ["mail", "runner"]);
    assert_eq!(names("--config=other.toml dead-letters --destination ma"), ["mail"]);
    assert_eq!(names("events list --parked-on no"), ["nowhere"]);
    assert_eq!(names("events replay --destination no"), ["nowhere"]);
    home.write("pillarbox.toml", "broken");
    assert!(names("destinations pause ").is_empty());
    assert!(!home.path("pillarbox.db").exists());
}

/// What a terminal obeys, and what turns the direction of text.
const HOSTILE: &str = "\x1b]0;owned\x07\x1b[2J\u{9b}31m\u{202e}\u{2066}\r\nfake";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_from_outside_steers_the_terminal() {
    let receiver = Receiver::start().await;
    receiver.answer_with(|_| Answer::status(400).body(HOSTILE));
    let mut home = Home::with_config(&format!(
        "[relay.retry]\nmax_attempts = 1\n[destinations.\"runner\\u001b[31m\\u202e\"]\nkind = \"http\"\nurl = \"{}\"\n\
         allow_private = true\n[[routes]]\nto = [\"runner\\u001b[31m\\u202e\"]\n",
        receiver.url("/in")
    ));
    let event_type = format!("order.{HOSTILE}");
    let payload = serde_json::json!({ "note": HOSTILE }).to_string();
    let header = format!("tenant{HOSTILE}=of{HOSTILE}");
    let emit = ["emit", HOSTILE, HOSTILE, &event_type, &payload, "--header", &header, "--key", HOSTILE];
    let id = home.json(&emit)["id"].as_str().unwrap().to_owned();
    home.set("RUST_LOG", "info,pillarbox=debug");
    home.run(&["destinations", "pause", "runner\u{1b}[31m\u{202e}"]).succeeded();
    home.run(&["destinations", "resume", "runner\u{1b}[31m\u{202e}"]).succeeded();
    let commands: [&[&str]; 13] = [
        &emit,
        &["events", "list"],
        &["events", "list", "--state", "due"],
        &["sweep"],
        &["events", "list"],
        &["events", "show", &id],
        &["dead-letters"],
        &["dead-letters", "retry", "--all", "--dry-run"],
        &["destinations", "list"],
        &["destinations", "pause", "runner\u{1b}[31m\u{202e}"],
        &["stats"],
        &["doctor"],
        &["top", "--once", "--width", "200"],
    ];
    for command in commands {
        let done = home.run(command);
        let obeyed =
            |c: char| c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        for said in [&done.out, &done.err] {
            assert!(!said.contains(obeyed), "{command:?}: {said:?}");
            assert!(!said.lines().any(|line| line.starts_with("fake")), "{command:?}: {said}");
        }
    }
    let shown = home.run(&["events", "show", &id]).succeeded().out;
    assert!(shown.contains(r"order.\u001b]0;owned\u0007\u001b[2J\u009b31m\u202e\u2066"), "{shown}");
    // For programs it stays what it is.
    let event = home.json(&["events", "show", &id]);
    assert_eq!(
        (event["event_type"].as_str(), event["payload"]["note"].as_str()),
        (Some(event_type.as_str()), Some(HOSTILE))
    );
}
