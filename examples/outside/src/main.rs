//! An application with its own manifest: it emits an event in its transaction. `make test` checks that it compiles beside
//! the default features of sqlx.

use pillarbox::{Event, emit};
use sqlx::PgPool;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    let mut tx = pool.begin().await?;
    let emitted = emit(&mut tx, Event::new("Order", 42, "order.placed").repeatable()).await?;
    tx.commit().await?;
    println!("{}", emitted.id);
    Ok(())
}
