//! Runs tansu's own program: `kafka-server broker` serves, `kafka-server topic create` creates a topic.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match tansu_cli::Cli::main().await {
        Ok(code) if i16::from(code) == 0 => ExitCode::SUCCESS,
        Ok(code) => {
            eprintln!("{code}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
