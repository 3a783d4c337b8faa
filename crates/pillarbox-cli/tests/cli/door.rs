//! Connections that say nothing: to the admin, to the metrics, and with few file descriptors.

use std::process::Command;
use std::time::Duration;

use pillarbox_testkit::process::Program;
use pillarbox_testkit::receiver::Receiver;
use pillarbox_testkit::wait_until;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::access::{serve, with_users};
use crate::client::Client;
use crate::delivering::{PATIENCE, to_receiver};
use crate::home::DISCARD;
use crate::home::Home;

/// Connections that are kept open, some of which have begun a request.
async fn silent(address: &str, count: usize) -> Vec<TcpStream> {
    let mut connections = Vec::with_capacity(count);
    for number in 0..count {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let begun: &[u8] = [&b""[..], b"GET / HTTP/1.1\r\nHost: a", b"PRI * HT"][number % 3];
        stream.write_all(begun).await.unwrap();
        connections.push(stream);
    }
    connections
}

async fn answered(client: &mut Client, path: &str) -> u16 {
    tokio::time::timeout(PATIENCE, client.get(path)).await.expect("an answer").status
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_lock_nobody_out_of_the_admin() {
    let (home, _) = with_users("");
    let (_program, mut client) = serve(&home).await;
    let address = client.host.clone();
    let held = silent(&address, 600).await;
    for _ in 0..3 {
        assert_eq!(answered(&mut client, "/login").await, 200);
    }
    let more = silent(&address, 200).await;
    assert_eq!(answered(&mut client, "/login").await, 200);
    drop((held, more));
}

/// With so many file descriptors at most.
fn limited(command: &Command, files: u32) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -n {files}; exec \"$0\" \"$@\"")).arg(command.get_program());
    shell.args(command.get_args()).env_clear();
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("PATH", "/usr/bin:/bin").current_dir(command.get_current_dir().expect("a directory"));
    shell
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_to_the_metrics_stop_no_delivery() {
    let receiver = Receiver::start().await;
    let mut home = to_receiver(&receiver, "");
    home.set("PILLARBOX_METRICS_LISTEN", "127.0.0.1:0");
    home.run(&["migrate"]).succeeded();
    let mut relay = Program::start(limited(&home.command(&["relay"]), 100));
    let line = relay.wait_for_line("metrics and health are served", PATIENCE).await.unwrap();
    let address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    relay.wait_for_line("relay started", PATIENCE).await.unwrap();
    let held = silent(&address, 200).await;
    // Before this the connection to the receiver was not needed.
    let ids: Vec<String> = (0..10).map(|number| home.emit(&number.to_string(), &[])).collect();
    for id in &ids {
        wait_until("it is delivered", PATIENCE, async || home.state(id) == "delivered").await;
    }
    let mut client = Client::new(&address);
    assert_eq!(answered(&mut client, "/healthz").await, 200);
    assert_eq!(answered(&mut client, "/metrics").await, 200);
    drop(held);
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_served_without_a_restart() {
    let certified = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let write = |home: &Home, certificate: &str, key: &str| {
        home.write("admin.pem", certificate);
        home.write("admin.key", key);
    };
    let (home, _) = with_users("tls_certificate = \"admin.pem\"\ntls_key = \"admin.key\"");
    let old = certified();
    write(&home, &old.cert.pem(), &old.signing_key.serialize_pem());
    let (program, plain) = serve(&home).await;
    let serves = async |certificate: &rcgen::Certificate| {
        let address = plain.host.clone();
        let certificate = certificate.der().clone();
        let asked = tokio::spawn(async move {
            let mut client = Client::trusting(&address, certificate);
            client.host = format!("localhost:{}", address.rsplit(':').next().unwrap());
            client.get("/login").await.status
        });
        asked.await.is_ok_and(|status| status == 200)
    };
    assert!(serves(&old.cert).await);

    // A certificate that cannot be used is logged, and the old one stays in use.
    home.write("admin.pem", "nothing");
    program.wait_for_line("TLS certificate not reloaded, the old one stays in use", PATIENCE).await.unwrap();
    assert!(serves(&old.cert).await);

    let new = certified();
    write(&home, &new.cert.pem(), &new.signing_key.serialize_pem());
    wait_until("the new one is served", PATIENCE.max(Duration::from_secs(30)), async || serves(&new.cert).await).await;
    program.wait_for_line("TLS certificate reloaded", PATIENCE).await.unwrap();
    assert!(!serves(&old.cert).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_tells_strangers_nothing_of_the_database() {
    let mut home = Home::with_config(DISCARD);
    home.set("PILLARBOX_METRICS_LISTEN", "127.0.0.1:0");
    home.run(&["migrate"]).succeeded();
    let relay = Program::start(home.command(&["relay"]));
    let line = relay.wait_for_line("metrics and health are served", PATIENCE).await.unwrap();
    let address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    wait_until("it is ready", PATIENCE, async || Client::new(&address).get("/readyz").await.status == 200).await;
    home.forget_tables().await;
    let answer = tokio::sync::Mutex::new(String::new());
    wait_until("it is not ready", PATIENCE, async || {
        let mut client = Client::new(&address);
        let told = client.get("/readyz").await;
        *answer.lock().await = told.body;
        told.status == 503
    })
    .await;
    let answer: serde_json::Value = serde_json::from_str(&answer.into_inner()).unwrap();
    assert_eq!((&answer["ok"], &answer["database"]), (&false.into(), &"not ok: see the log".into()), "{answer}");
    relay.wait_for_line("health check failed", PATIENCE).await.unwrap();
}
