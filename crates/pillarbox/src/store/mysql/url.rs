//! The database's URL. The driver ignores parameters that it does not know, so a misspelt `ssl-mode` would connect without
//! encryption: unknown parameters are refused here.

use sqlx::mysql::MySqlConnectOptions;

use crate::error::DriverError;

/// The parameters that a person may need. Those without a hyphen are the driver's other spellings.
const KNOWN: [&str; 10] = [
    "ssl-mode",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "socket",
    "sslmode",
    "sslca",
    "sslcert",
    "sslkey",
    "statement-cache-capacity",
];
/// Parameters that other programs use. The store sets these values itself.
const IGNORED: [&str; 4] = ["charset", "collation", "timezone", "time-zone"];

/// Returns how to connect to a URL. No error contains the URL, which may have a password.
pub(super) fn options(url: &str) -> Result<MySqlConnectOptions, DriverError> {
    let (_, query) = url.split_once('?').unwrap_or((url, ""));
    let parameters = query.split('&').filter(|part| !part.is_empty());
    let parameters: Vec<(&str, &str)> = parameters.map(|part| part.split_once('=').unwrap_or((part, ""))).collect();
    if let Some((name, _)) = parameters.iter().find(|(name, _)| !KNOWN.contains(name) && !IGNORED.contains(name)) {
        return Err(format!("the parameter {name:?} is unknown; choose one of: {}", KNOWN[..5].join(", ")).into());
    }
    let get = |names: [&str; 2]| parameters.iter().find(|(name, _)| names.contains(name)).map(|(_, value)| *value);
    let (mode, authority) = (get(["ssl-mode", "sslmode"]), get(["ssl-ca", "sslca"]));
    let checks = mode.is_some_and(|mode| mode.to_ascii_uppercase().starts_with("VERIFY_"));
    if authority.is_some() && !checks {
        return Err(
            "ssl-ca is checked only with ssl-mode=VERIFY_CA or ssl-mode=VERIFY_IDENTITY; add one of them".into()
        );
    }
    if get(["ssl-cert", "sslcert"]).is_some() != get(["ssl-key", "sslkey"]).is_some() {
        return Err("ssl-cert and ssl-key need each other; set both".into());
    }
    let options: MySqlConnectOptions = url.parse().map_err(|error| {
        format!("{error}; write mysql://USER:PASSWORD@HOST:PORT/DATABASE, with percent-encoded special characters")
    })?;
    if options.get_database().is_none() {
        return Err("the URL names no database; write mysql://USER:PASSWORD@HOST:PORT/DATABASE".into());
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_would_ignore_is_refused() {
        for good in [
            "mysql://ann:hunter2@db/shop",
            "mariadb://ann@db:3307/shop?ssl-mode=VERIFY_IDENTITY&ssl-ca=/etc/ca.pem",
            "mysql://db/shop?charset=utf8mb4&ssl-mode=required&ssl-cert=a&ssl-key=b",
        ] {
            assert!(options(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("mysql://ann:hunter2@db/shop?ssl_mode=REQUIRED", "\"ssl_mode\" is unknown; choose one of: ssl-mode"),
            ("mysql://ann:hunter2@db/shop?ssl-mode=maybe", "unknown value"),
            ("mysql://ann:hunter2@db/shop?ssl-ca=a", "add one of them"),
            ("mysql://ann:hunter2@db/shop?ssl-ca=a&ssl-mode=REQUIRED", "add one of them"),
            ("mysql://ann:hunter2@db/shop?ssl-cert=a", "set both"),
            ("mysql://ann:hunter2@db", "names no database"),
            ("mysql://ann:hunter2#1@db/shop", "percent-encoded"),
        ] {
            let error = options(bad).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("hunter2"), "{bad}: {error}");
        }
    }
}
