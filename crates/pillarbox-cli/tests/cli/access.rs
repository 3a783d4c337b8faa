//! Who may come into the admin, and what they may do there, over real connections to the real program.

use pillarbox_testkit::process::Program;
use serde_json::Value;

use crate::client::{Answer, Client};
use crate::delivering::PATIENCE;
use crate::home::{DISCARD, Home};

pub(crate) const PASSWORD: &str = "correct horse battery staple";

/// What the program makes for users.
fn hash(home: &Home, password: &str) -> String {
    home.run_with_input(&["admin", "hash-password"], &format!("{password}\n")).succeeded().out.trim().to_owned()
}

/// A home with an operator and a viewer, and the operator's token.
pub(crate) fn with_users(more: &str) -> (Home, String) {
    let mut home = Home::new();
    let hash = hash(&home, PASSWORD);
    let made = home.json(&["admin", "make-token"]);
    let (token, token_hash) = (made["token"].as_str().unwrap(), made["hash"].as_str().unwrap());
    home.write("vera.hash", &format!("{hash}\n"));
    home.set("HASH_OF_OLGA", &hash);
    home.write(
        "pillarbox.toml",
        &format!(
            "{DISCARD}[admin]\n{more}\n[admin.users.olga]\nrole = \"operator\"\npassword = \"env:HASH_OF_OLGA\"\n\
             token = \"{token_hash}\"\n[admin.users.vera]\nrole = \"viewer\"\npassword = \"file:vera.hash\"\n"
        ),
    );
    (home, token.to_owned())
}

/// Serves the admin of a home at a free port.
pub(crate) async fn serve(home: &Home) -> (Program, Client) {
    home.run(&["migrate"]).succeeded();
    let program = Program::start(home.command(&["admin", "--listen", "127.0.0.1:0"]));
    let address = address(&program).await;
    (program, Client::new(&address))
}

pub(crate) async fn address(program: &Program) -> String {
    let served = program.wait_for_line("admin is served", PATIENCE).await.unwrap();
    let address = served.split("://").nth(1).unwrap().split(' ').next().unwrap();
    address.to_owned()
}

fn is_page(answer: &Answer) -> bool {
    answer.header("content-type").starts_with("text/html")
}

#[tokio::test(flavor = "multi_thread")]
async fn without_users_anyone_on_this_machine_looks_and_nobody_acts() {
    let home = Home::with_config(DISCARD);
    let (mut program, mut client) = serve(&home).await;
    let page = client.get("/").await;
    assert!(page.status == 200 && is_page(&page) && page.body.contains("anyone"), "{page:?}");
    assert!(page.all("set-cookie").is_empty());
    assert!(program.terminate(PATIENCE).await.unwrap().success());

    let home = Home::with_config(&format!("{DISCARD}[admin]\nlisten = \"0.0.0.0:0\"\n"));
    for command in [&["admin"][..], &["relay"], &["check-config"]] {
        let refused = home.command(command).env_remove("PILLARBOX_ADMIN_LISTEN").output().unwrap();
        let (code, err) = (refused.status.code(), String::from_utf8(refused.stderr).unwrap());
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains("admin.listen is 0.0.0.0:0, which others can reach"), "{err}");
        assert!(err.contains("pillarbox admin hash-password"), "{err}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_its_own_names_are_answered() {
    let home = Home::with_config(&format!("{DISCARD}[admin]\nhosts = [\"outbox.example.com\"]\n"));
    let (_program, mut client) = serve(&home).await;
    for good in ["localhost:8800", "127.0.0.1", "outbox.example.com"] {
        client.host = good.to_owned();
        assert_eq!(client.get("/").await.status, 200, "{good}");
    }
    client.host = "evil.example:8800".to_owned();
    let refused = client.get("/").await;
    assert!(refused.status == 421 && refused.body.contains("admin.hosts"), "{refused:?}");
    assert_eq!(client.get("/assets/admin.css").await.status, 421);
    let problem = client.get("/api/v1/events").await;
    assert_eq!((problem.status, problem.header("content-type")), (421, "application/problem+json"));
    assert_eq!(problem.json()["status"], 421);
    client.host.clear();
    assert_eq!(client.get("/").await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_carries_the_headers_that_keep_browsers_strict() {
    let home = Home::with_config(DISCARD);
    let (_program, mut client) = serve(&home).await;
    for path in ["/", "/login", "/nothing", "/api/v1/nothing", "/assets/admin.css"] {
        let answer = client.get(path).await;
        assert_eq!(
            answer.header("content-security-policy"),
            "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
            "{path}"
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(answer.header("x-frame-options"), "DENY", "{path}");
        let expected = if path.starts_with("/assets/") { "max-age=300" } else { "no-store" };
        assert_eq!(answer.header("cache-control"), expected, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn people_log_in_and_out() {
    let (home, _) = with_users("");
    let (program, mut client) = serve(&home).await;
    let away = client.get("/?a=b&c=d").await;
    assert_eq!((away.status, away.header("location")), (303, "/login?next=%2F%3Fa%3Db%26c%3Dd"));
    assert!(client.get("/login?next=%2F").await.body.contains("type=\"password\""));

    for (name, password) in [("olga", "wrong"), ("nobody", PASSWORD), ("olga", "")] {
        let refused = client.log_in(name, password).await;
        assert!(refused.status == 401 && refused.body.contains("The name or the password is wrong."), "{refused:?}");
        assert!(refused.all("set-cookie").is_empty());
    }
    let welcome = client.post("/login", &[("name", "olga"), ("password", PASSWORD), ("next", "/?x=1")]).await;
    assert_eq!((welcome.status, welcome.header("location")), (303, "/?x=1"), "{welcome:?}");
    let [cookie] = welcome.all("set-cookie")[..] else { panic!("{welcome:?}") };
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    let away = client.post("/login", &[("name", "olga"), ("password", PASSWORD), ("next", "//evil.example")]).await;
    assert_eq!(away.header("location"), "/");
    let page = client.get("/").await;
    assert!(page.status == 200 && page.body.contains("olga"), "{page:?}");

    // A copy of the cookie is worth nothing after logging out.
    let stolen = client.cookies().clone();
    let csrf = client.csrf().await;
    assert_eq!(client.post("/logout", &[("csrf", &csrf)]).await.header("location"), "/login");
    assert!(client.cookies().is_empty());
    let (name, value) = stolen.first_key_value().unwrap();
    let again = client.send("GET", "/", &[("cookie", &format!("{name}={value}"))], "").await;
    assert_eq!(again.status, 303);

    let log = program.lines().join("\n");
    assert!(log.contains("admin login failed") && log.contains("admin login succeeded"), "{log}");
    assert!(!log.contains("nobody") && !log.contains("horse") && !log.contains(value), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_acts_only_with_its_token_and_only_from_our_pages() {
    let (home, _) = with_users("");
    let (_program, mut client) = serve(&home).await;
    client.log_in("olga", PASSWORD).await;
    let csrf = client.csrf().await;
    let mut other = Client::new(&client.host);
    other.log_in("olga", PASSWORD).await;
    let of_another_session = other.csrf().await;
    assert_ne!(csrf, of_another_session);
    for forged in ["", "x", &of_another_session] {
        let refused = client.post("/logout", &[("csrf", forged)]).await;
        assert!(refused.status == 403 && refused.body.contains("token is missing"), "{refused:?}");
        let refused = client.send("POST", "/logout", &[("x-csrf-token", forged)], "").await;
        assert_eq!(refused.status, 403);
    }
    assert_eq!(client.post("/logout", &[]).await.status, 403);
    assert_eq!(
        client.send("POST", "/logout", &[("content-type", "text/plain")], &format!("csrf={csrf}")).await.status,
        403
    );
    for foreign in
        [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site")]
    {
        let refused = client.send("POST", "/logout", &[foreign, ("x-csrf-token", &csrf)], "").await;
        assert!(refused.status == 403 && refused.body.contains("another site"), "{refused:?}");
    }
    // Nor can anybody be logged in from elsewhere.
    client.headers.push(("sec-fetch-site".to_owned(), "cross-site".to_owned()));
    assert_eq!(client.log_in("olga", PASSWORD).await.status, 403);
    client.headers.clear();
    assert_eq!(client.get("/").await.status, 200, "it is still there");
    assert_eq!(client.send("POST", "/logout", &[("x-csrf-token", &csrf)], "").await.status, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_known_and_another_is_not() {
    let (home, token) = with_users("");
    let (_program, mut client) = serve(&home).await;
    let refused = client.get("/api/v1/nothing").await;
    assert_eq!(refused.status, 404);
    client.headers = vec![("authorization".to_owned(), format!("Bearer {token}"))];
    let page = client.get("/").await;
    assert!(page.status == 200 && page.body.contains("olga"), "{page:?}");
    assert!(!page.body.contains("name=\"csrf\""), "a token needs none");
    for wrong in [format!("Bearer {token}x"), "Bearer".to_owned(), format!("Basic {token}"), "Bearer ".to_owned()] {
        client.headers = vec![("authorization".to_owned(), wrong)];
        let refused = client.get("/api/v1/events").await;
        assert_eq!(
            (refused.status, refused.header("www-authenticate")),
            (401, "Bearer realm=\"pillarbox\""),
            "{refused:?}"
        );
        assert_eq!(refused.header("content-type"), "application/problem+json");
        assert!(!refused.body.contains(&token));
    }
}

const PAUSE: &str = "/api/v1/destinations/nowhere/pause";

#[tokio::test(flavor = "multi_thread")]
async fn the_api_acts_only_for_an_operator_and_for_a_session_only_with_its_token() {
    let home = Home::with_config(DISCARD);
    let (_program, mut anyone) = serve(&home).await;
    assert_eq!(anyone.get("/api/v1/destinations").await.status, 200);
    let refused = anyone.post(PAUSE, &[]).await;
    assert_eq!((refused.status, refused.header("content-type")), (403, "application/problem+json"));
    assert!(refused.json()["detail"].as_str().unwrap().contains("without users the admin is read-only"), "{refused:?}");

    let (home, token) = with_users("");
    let (_program, mut client) = serve(&home).await;
    assert_eq!(client.post(PAUSE, &[]).await.status, 401);
    assert_eq!(client.get("/api/v1/destinations").await.status, 401);
    client.log_in("vera", PASSWORD).await;
    let csrf = client.csrf().await;
    let refused = client.send("POST", PAUSE, &[("x-csrf-token", &csrf)], "").await;
    assert!(refused.status == 403 && refused.body.contains("vera is a viewer"), "{refused:?}");

    client.log_in("olga", PASSWORD).await;
    let (csrf_of_vera, csrf) = (csrf, client.csrf().await);
    for forged in [&[][..], &[("x-csrf-token", "")], &[("x-csrf-token", csrf_of_vera.as_str())]] {
        let refused = client.send("POST", PAUSE, forged, "").await;
        assert_eq!((refused.status, refused.header("content-type")), (403, "application/problem+json"), "{refused:?}");
    }
    let json = [("content-type", "application/json")];
    assert_eq!(client.send("POST", PAUSE, &json, &format!("{{\"csrf\":\"{csrf}\"}}")).await.status, 403);
    let state = client.get("/api/v1/destinations").await;
    assert_eq!(state.json()["destinations"][0]["paused_by"], Value::Null, "{state:?}");
    let done = client.send("POST", PAUSE, &[("x-csrf-token", &csrf)], "").await;
    assert!(done.status == 200 && done.json()["changed"] == true, "{done:?}");

    let mut program = Client::new(&client.host);
    program.headers = vec![("authorization".to_owned(), format!("bearer {token}"))];
    let done = program.post("/api/v1/destinations/nowhere/resume", &[]).await;
    assert!(done.status == 200 && done.json()["changed"] == true, "{done:?}");
    assert!(program.cookies().is_empty());
    let audit = program.get("/api/v1/audit").await.json();
    let lines: Vec<_> = audit["entries"].as_array().unwrap_or_else(|| panic!("{audit}")).iter().collect();
    assert_eq!(lines.len(), 2, "{audit}");
    assert!(lines.iter().all(|line| line["who"] == "olga"), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_gets_slower_for_a_name_known_or_not() {
    let (home, _) = with_users("");
    let (_program, mut client) = serve(&home).await;
    for name in ["vera", "nobody"] {
        for _ in 0..5 {
            assert_eq!(client.log_in(name, "guess").await.status, 401);
        }
        let refused = client.log_in(name, PASSWORD).await;
        assert_eq!((refused.status, refused.header("retry-after")), (429, "1"), "{name}: {refused:?}");
        assert!(refused.body.contains("Try again in 1 second."), "{refused:?}");
    }
    assert_eq!(client.log_in("olga", PASSWORD).await.status, 303, "others are not held up");
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_gets_slower_for_an_address_and_a_proxy_says_which() {
    let (home, _) = with_users("behind_tls_proxy = true\ntrusted_proxies = [\"127.0.0.1\", \"10.0.0.0/8\"]");
    let (_program, mut client) = serve(&home).await;
    // What the one who asks says of itself stands first, and is not believed.
    let from = |address: &str| vec![("x-forwarded-for".to_owned(), format!("9.9.9.9, {address}, 10.1.2.3"))];
    client.headers = from("192.0.2.7");
    for number in 0..20 {
        assert_eq!(client.log_in(&format!("nobody{number}"), "guess").await.status, 401);
    }
    assert_eq!(client.log_in("olga", PASSWORD).await.status, 429);
    client.headers = from("192.0.2.8");
    let welcome = client.log_in("olga", PASSWORD).await;
    assert_eq!(welcome.status, 303);
    let cookie = welcome.header("set-cookie");
    assert!(
        cookie.starts_with("__Host-") && cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure"),
        "{cookie}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_locks_no_user_out() {
    let (home, _) = with_users("trusted_proxies = [\"127.0.0.1\"]");
    let (_program, mut client) = serve(&home).await;
    for stranger in 1..=3 {
        client.headers = vec![("x-forwarded-for".to_owned(), format!("192.0.2.{stranger}"))];
        for _ in 0..5 {
            assert_eq!(client.log_in("olga", "guess").await.status, 401);
        }
        assert_eq!(client.log_in("olga", PASSWORD).await.status, 429);
    }
    client.headers = vec![("x-forwarded-for".to_owned(), "192.0.2.99".to_owned())];
    assert_eq!(client.log_in("olga", PASSWORD).await.status, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_trusted_proxy_says_who_asks() {
    for more in ["behind_tls_proxy = true", "behind_tls_proxy = true\ntrusted_proxies = [\"10.0.0.0/8\"]"] {
        let (home, _) = with_users(more);
        let (_program, mut client) = serve(&home).await;
        for number in 0..20 {
            client.headers = vec![("x-forwarded-for".to_owned(), format!("192.0.2.{number}"))];
            assert_eq!(client.log_in(&format!("nobody{number}"), "guess").await.status, 401);
        }
        client.headers = vec![("x-forwarded-for".to_owned(), "192.0.2.99".to_owned())];
        assert_eq!(client.log_in("olga", PASSWORD).await.status, 429, "{more}");
    }
    let (home, _) = with_users("behind_tls_proxy = true");
    assert!(home.run(&["check-config"]).succeeded().err.contains("admin.trusted_proxies is not set"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_proxy_names_its_user() {
    let users = "user_header = \"X-Forwarded-User\"\ntrusted_proxies = [\"127.0.0.1\"]\n[admin.users.otto]\nrole = \"operator\"";
    let (home, token) = with_users(users);
    let (_program, mut client) = serve(&home).await;
    let named = |names: &[&str]| names.iter().map(|name| ("x-forwarded-user".to_owned(), (*name).to_owned())).collect();
    for (name, acts) in [("otto", 404), ("vera", 403)] {
        client.headers = named(&[name]);
        let page = client.get("/").await;
        assert!(page.status == 200 && page.body.contains(name) && !page.body.contains("Log out"), "{page:?}");
        assert_eq!(client.post("/events/0199b1a0-0000-7000-8000-000000000000/retry", &[]).await.status, acts, "{name}");
    }
    client.headers = named(&["mallory"]);
    let refused = client.get("/").await;
    assert!(refused.status == 403 && refused.body.contains("mallory"), "{refused:?}");
    client.headers = named(&["mallory", "otto"]);
    assert_eq!(client.get("/").await.status, 400);
    // Another site cannot use the user's log-in at the proxy.
    client.headers = named(&["otto"]);
    client.headers.push(("sec-fetch-site".to_owned(), "cross-site".to_owned()));
    assert_eq!(client.post("/events/0199b1a0-0000-7000-8000-000000000000/retry", &[]).await.status, 403);
    // Passwords and tokens work beside it.
    client.headers = vec![("authorization".to_owned(), format!("Bearer {token}"))];
    assert_eq!(client.get("/api/v1/events").await.status, 200);
    client.headers = named(&[""]);
    assert_eq!(client.get("/").await.status, 303);
    assert_eq!(client.log_in("olga", PASSWORD).await.status, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_but_a_trusted_proxy_names_a_user() {
    let (home, _) = with_users("user_header = \"X-Forwarded-User\"\ntrusted_proxies = [\"10.0.0.0/8\"]");
    let (_program, mut client) = serve(&home).await;
    client.headers =
        vec![("x-forwarded-user".to_owned(), "olga".to_owned()), ("x-forwarded-for".to_owned(), "10.1.2.3".to_owned())];
    let page = client.get("/").await;
    assert_eq!((page.status, page.header("location")), (303, "/login?next=%2F"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_speaks_tls() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (home, _) = with_users("tls_certificate = \"admin.pem\"\ntls_key = \"admin.key\"");
    home.write("admin.pem", &certified.cert.pem());
    home.write("admin.key", &certified.signing_key.serialize_pem());
    let (mut program, plain) = serve(&home).await;
    let mut client = Client::trusting(&plain.host, certified.cert.der().clone());
    let welcome = client.log_in("olga", PASSWORD).await;
    assert!(welcome.header("set-cookie").contains("; Secure"), "{welcome:?}");
    assert_eq!(client.get("/").await.status, 200);
    assert!(program.terminate(PATIENCE).await.unwrap().success());

    home.write("admin.key", "no key");
    let refused = home.run(&["admin", "--listen", "127.0.0.1:0"]);
    assert!(refused.code == 2 && refused.err.contains("admin.tls_key: admin.key cannot be used"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_serves_it_where_it_was_told_to_or_at_the_usual_place_if_that_is_free() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let home = Home::with_config(DISCARD);
    let with = |listen: &str| {
        let mut command = home.command(&["relay"]);
        command.env("PILLARBOX_ADMIN_LISTEN", listen);
        Program::start(command)
    };
    let mut relay = with("127.0.0.1:0");
    let mut client = Client::new(&address(&relay).await);
    assert_eq!(client.get("/").await.status, 200);
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
    let mut refused = with(&taken);
    refused.wait_for_line("admin.listen: ", PATIENCE).await.unwrap();
    assert!(!refused.wait(PATIENCE).await.unwrap().success());

    // Whoever has the usual place by now, this test or another: the relay runs.
    let _usual = tokio::net::TcpListener::bind("127.0.0.1:8800").await;
    let mut command = home.command(&["relay"]);
    command.env_remove("PILLARBOX_ADMIN_LISTEN");
    let mut relay = Program::start(command);
    relay.wait_for_line("admin not served: listening failed", PATIENCE).await.unwrap();
    relay.wait_for_line("relay started", PATIENCE).await.unwrap();
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
    let mut relay = with("off");
    relay.wait_for_line("relay started", PATIENCE).await.unwrap();
    assert!(!relay.lines().join("\n").contains("admin"), "{:?}", relay.lines());
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
}

#[test]
fn hashes_are_made_and_never_shown() {
    let (home, token) = with_users("");
    let hash = hash(&home, PASSWORD);
    assert!(hash.starts_with("$argon2id$v=19$m="), "{hash}");
    let shown = home.run(&["check-config"]).succeeded();
    let json = home.json(&["check-config"]);
    assert_eq!(json["settings"]["admin"]["users"]["olga"]["password"], "*** (env:HASH_OF_OLGA)");
    assert_eq!(json["settings"]["admin"]["users"]["olga"]["token"], "***");
    let secrets = [home.run(&["check-config"]).out, shown.out, json.to_string()].concat();
    assert!(!secrets.contains("$argon2id") && !secrets.contains(&token) && secrets.contains("vera.hash"), "{secrets}");
    home.write("vera.hash", "plainpassword");
    let refused = home.run(&["check-config"]);
    assert!(refused.err.contains("admin.users.vera.password is not an argon2 hash"), "{refused:?}");
    assert!(!refused.err.contains("plainpassword"));
    let empty = home.run_with_input(&["admin", "hash-password"], "\n");
    assert!(empty.code == 2 && empty.err.contains("the password is empty"), "{empty:?}");
    let made: Value = home.json(&["admin", "make-token"]);
    assert!(made["token"].as_str().unwrap().starts_with("pillarbox_"), "{made}");
}
