//! On MariaDB and MySQL, an account that may only emit can do so in every way, through every driver.

use pillarbox::store::Role;
use pillarbox::{Claims, EmitError, Event};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection};
use uuid::Uuid;

use crate::diesel_driver::DieselMysql;
use crate::fixture::{Database, Driver, End, Mysql, Step};
use crate::sea_orm_driver::SeaOrmMysql;
use crate::sqlx_driver::SqlxMysql;

async fn emits_in_every_way<D: Driver<Database = Mysql>>() {
    let (database, store) = Mysql::create().await;
    let user = format!("user_{}", &Uuid::new_v4().simple().to_string()[..20]);
    let mut server = MySqlConnection::connect(&database.url()).await.unwrap();
    server.execute(AssertSqlSafe(format!("CREATE USER {user} IDENTIFIED BY 'hunter2'"))).await.unwrap();
    store.grant(Role::Emit, &user).await.unwrap();
    let mut driver = D::connect(&database.url().replace("root@", &format!("{user}:hunter2@"))).await;
    let placed = |order: u32| Event::new("Order", order, "order.placed");
    let steps = vec![
        Step::Emit(placed(1)),
        Step::Once(placed(1)),
        Step::All(vec![placed(2), placed(3)]),
        Step::All(vec![placed(4), placed(2)]),
    ];
    let answers = driver.transaction(steps, End::Commit).await;
    assert!(!answers[1].as_ref().unwrap()[0].is_new);
    let all = answers[2].as_ref().unwrap();
    assert!(all.len() == 2 && all[0].seq < all[1].seq, "{all:?}");
    assert!(matches!(answers[3], Err(EmitError::Duplicate { .. })), "{answers:?}");
    assert_eq!(store.remaining().await.unwrap(), 3);
    server.execute(AssertSqlSafe(format!("DROP USER {user}"))).await.unwrap();
}

#[tokio::test]
async fn an_emitter_emits_through_sqlx() {
    emits_in_every_way::<SqlxMysql>().await;
}

#[tokio::test]
async fn an_emitter_emits_through_diesel() {
    emits_in_every_way::<DieselMysql>().await;
}

#[tokio::test]
async fn an_emitter_emits_through_sea_orm() {
    emits_in_every_way::<SeaOrmMysql>().await;
}
