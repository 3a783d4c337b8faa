//! A receiver that writes an invoice for each order, once. The guide's page on receiving shows it, and its tests run it.

use pillarbox_inbox::{Event, HandlerError, Inbox};
use sqlx::{PgConnection, PgPool};

async fn bill(event: &Event, tx: &mut PgConnection) -> Result<(), HandlerError> {
    let order: serde_json::Value = event.json()?;
    let insert = sqlx::query("INSERT INTO invoice (order_id, total) VALUES ($1, $2)");
    insert.bind(event.aggregate_id()).bind(order["total"].as_str()).execute(tx).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let inbox = Inbox::new("billing", std::env::var("BILLING_SECRETS")?.split(' '))?;
    let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    let app = axum::Router::new().route("/events", inbox.post(pool, |event, tx| Box::pin(bill(event, tx))));
    axum::serve(tokio::net::TcpListener::bind(std::env::var("LISTEN")?).await?, app).await?;
    Ok(())
}
