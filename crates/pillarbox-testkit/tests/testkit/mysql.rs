use pillarbox_testkit::{PrivateMysql, TestMysql};
use sqlx::{Connection, MySqlConnection};

#[tokio::test]
async fn a_private_mariadb_keeps_its_data_through_a_kill() {
    let mut mysql = PrivateMysql::start().await;
    let database = TestMysql::create_on(&mysql.url()).await;
    let mut connection = MySqlConnection::connect(&database.url()).await.expect("it answers");
    for statement in ["CREATE TABLE letters (id int PRIMARY KEY)", "INSERT INTO letters VALUES (1), (2)"] {
        sqlx::query(statement).execute(&mut connection).await.expect("it can be written");
    }
    mysql.restart_immediate().await;
    assert!(sqlx::query("SELECT 1").execute(&mut connection).await.is_err(), "the old session is broken");
    let mut connection = MySqlConnection::connect(&database.url()).await.expect("it answers again");
    let letters: i64 =
        sqlx::query_scalar("SELECT count(*) FROM letters").fetch_one(&mut connection).await.expect("read");
    assert_eq!(letters, 2);
}

#[tokio::test]
async fn a_private_mariadb_has_the_settings_that_it_was_started_with() {
    let mut mysql = PrivateMysql::start_with(&[("binlog_format", "STATEMENT"), ("log_bin", "log")]).await;
    mysql.stop().await;
    assert!(MySqlConnection::connect(&mysql.url()).await.is_err());
    mysql.start_again().await;
    let mut connection = MySqlConnection::connect(&mysql.url()).await.expect("it answers again");
    let (format, on): (String, bool) =
        sqlx::query_as("SELECT @@binlog_format, @@log_bin").fetch_one(&mut connection).await.expect("read");
    assert_eq!((format.as_str(), on), ("STATEMENT", true));
}
