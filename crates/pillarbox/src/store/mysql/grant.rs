//! Grants on MariaDB and MySQL. The database's accounts are what roles are on PostgreSQL.

use super::connect::number;
use super::rights::{identifier, quoted_account};
use super::{MysqlStore, SQL, database};
use crate::error::{DriverError, StoreError};
use crate::store::migrate::Role;

/// The errors of an account that does not exist, on MariaDB and on MySQL.
const NO_ACCOUNT: [u16; 2] = [1133, 1410];
/// The error of a procedure that does not exist.
const NO_PROCEDURE: u16 = 1305;
/// Keeps MariaDB from creating the account, without a password. MySQL never does, and does not know the mode.
const NO_CREATION: &str = "SET sql_mode = concat(@@sql_mode, ',NO_AUTO_CREATE_USER')";

impl MysqlStore {
    /// Returns the statements that grant an account its rights, for people to read. The account is `user` or `user@host`.
    #[must_use]
    pub fn grants(&self, kind: Role, account: &str) -> String {
        let text = match kind {
            Role::Emit => SQL.grants_emit,
            Role::Relay => SQL.grants_relay,
        };
        let name = identifier(self.connections.server.database());
        text.replace("{database}", &name).replace("{account}", &quoted_account(account))
    }

    /// Grants an account its rights. The procedure `outbox_emit` is left out where it does not exist.
    ///
    /// # Errors
    /// When the account does not exist, or the database returns another error. Statements before the failed one have taken effect.
    pub async fn grant(&self, kind: Role, account: &str) -> Result<(), StoreError> {
        self.apply_grants(kind, account).await.map_err(database("granting rights"))
    }

    async fn apply_grants(&self, kind: Role, account: &str) -> Result<(), DriverError> {
        let mut link = self.connections.acquire().await?;
        // Its settings differ, so the connection is closed afterwards.
        link.keep();
        if self.connections.server.is_mariadb() {
            link.script(NO_CREATION.to_owned()).await?;
        }
        let grants = self.grants(kind, account);
        for statement in grants.split_inclusive(";\n") {
            match link.script(statement.to_owned()).await {
                Err(error) if number(&error) == Some(NO_PROCEDURE) => {
                    tracing::warn!("procedure outbox_emit does not exist, so EXECUTE was not granted");
                }
                Err(error) if number(&error).is_some_and(|number| NO_ACCOUNT.contains(&number)) => {
                    let account = quoted_account(account);
                    return Err(
                        format!("the account {account} does not exist; create it: CREATE USER {account} …").into()
                    );
                }
                done => drop(done?),
            }
        }
        Ok(())
    }
}
