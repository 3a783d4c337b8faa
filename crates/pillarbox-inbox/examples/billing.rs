//! A receiver that writes an invoice for each order, once. The guide's page on receiving shows it, and its tests run it.

use axum::extract::{Request, State};
use axum::{Router, routing::post};
use pillarbox_inbox::{Answer, Inbox};
use sqlx::PgPool;

async fn events(State((inbox, pool)): State<(Inbox, PgPool)>, request: Request) -> Answer {
    let answer = inbox.receive_request(&pool, request, |event, tx| {
        Box::pin(async move {
            let order: serde_json::Value = event.json()?;
            let insert = sqlx::query("INSERT INTO invoice (order_id, total) VALUES ($1, $2)");
            insert.bind(event.aggregate_id()).bind(order["total"].as_str()).execute(tx).await?;
            Ok(())
        })
    });
    answer.await
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let inbox = Inbox::new("billing", std::env::var("BILLING_SECRETS")?.split(' '))?;
    let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    let app = Router::new().route("/events", post(events)).with_state((inbox, pool));
    let address = std::env::var("LISTEN").unwrap_or("127.0.0.1:8080".to_owned());
    axum::serve(tokio::net::TcpListener::bind(address).await?, app).await?;
    Ok(())
}
