//! Tests of the screen at 80 by 24 and wider, and of the keys.

use super::overview::tests::example;
use super::*;

fn app() -> App {
    let mut app = App::new("postgres://shop".to_owned(), example());
    app.letters = Some(Vec::new());
    app
}

fn shown(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen::draw(frame, app)).unwrap();
    terminal.backend().to_string()
}

fn press(app: &mut App, code: KeyCode) -> Wish {
    app.pressed(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn everything_is_there_at_80_by_24_and_more_where_there_is_room() {
    let app = app();
    let small = shown(&app, 80, 24);
    let all = [
        "pillarbox postgres://shop",
        "12:30:20Z",
        "due 0",
        "failed 0",
        "delivered 110/min",
        "p95",
        "WAITING",
        "13m",
        "runner",
        "paused",
        "down",
        "vm1",
        "busy",
        "silent",
        "mail down",
        "no dead letters in 24 hours",
        "q quit",
    ];
    for part in all {
        assert!(small.contains(part), "{part} in\n{small}");
    }
    assert!(!small.contains("connection refused"), "{small}");
    let wide = shown(&app, 160, 40);
    for part in all.into_iter().chain(["for 13m, probe in 4.0s, connection refused", "paused by ann@host"]) {
        assert!(wide.contains(part), "{part} in\n{wide}");
    }
    let narrow = shown(&app, 60, 24);
    for part in all.into_iter().chain(["/MIN", "OLDEST", "FAILED", "? help", "mail down, run"]) {
        assert!(narrow.contains(part), "{part} in\n{narrow}");
    }
    assert!(!narrow.contains("SUCCESS") && !narrow.contains("REPLY"), "{narrow}");
    // A tiny terminal breaks nothing.
    shown(&app, 20, 5);
    shown(&app, 1, 1);
}

#[test]
fn a_pause_is_asked_for_and_done_only_after_a_yes() {
    let mut app = app();
    assert_eq!(press(&mut app, KeyCode::Char('p')), Wish::Nothing);
    assert_eq!(app.asked, Some(Asked::Resume("audit".to_owned())));
    assert_eq!(press(&mut app, KeyCode::Char('q')), Wish::Nothing);
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Char('p'));
    assert!(shown(&app, 80, 24).contains("pause runner?"));
    assert_eq!(press(&mut app, KeyCode::Char('y')), Wish::Do(Asked::Pause("runner".to_owned())));
    press(&mut app, KeyCode::Char('?'));
    assert!(shown(&app, 80, 24).contains("choose a destination"));
    assert_eq!(press(&mut app, KeyCode::Char('q')), Wish::Nothing);
    assert_eq!(press(&mut app, KeyCode::Char('q')), Wish::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    app.asked = Some(Asked::Pause("runner".to_owned()));
    assert_eq!(app.pressed(interrupt), Wish::Quit);
}
