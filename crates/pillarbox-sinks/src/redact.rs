//! URLs for people: the one place where passwords are removed from URLs. A malformed URL is hidden rather than shown.

/// A URL, split where logins and parameters begin. It need not be well-formed: passwords may contain any character.
struct Parts<'a> {
    scheme: &'a str,
    /// The part before the last `@`.
    login: Option<&'a str>,
    /// Hosts, ports and path.
    place: &'a str,
    /// The part after the question mark.
    query: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (login, rest) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
        let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
        let (hosts, _) = split_hosts(place);
        let plain = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        (plain && are_hosts(hosts)).then_some(Self { scheme, login, place, query })
    }
}

/// Returns scheme, host and port: `https://receiver.example/***`. A receiver's path and query are often secret.
#[must_use]
pub fn origin(url: &str) -> String {
    let shown = split_origin(url).map(|(scheme, host, path)| match path {
        "" | "/" => format!("{scheme}://{host}{path}"),
        _ => format!("{scheme}://{host}/***"),
    });
    shown.unwrap_or_else(hidden)
}

/// Returns the URL of a receiver: `https://receiver.example/events?tenant=acme`. The login and everything that looks like a
/// secret are replaced: tokens in the path, as webhooks have them, and values of the query.
#[must_use]
pub fn address(url: &str) -> String {
    let Some((scheme, host, rest)) = split_origin(url) else { return hidden() };
    let (rest, fragment) = rest.split_once('#').map_or((rest, ""), |(rest, _)| (rest, "#***"));
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    // Another URL or a login behind the host is more than a path.
    if path.contains(['@', ';', '\\']) || path.contains("://") {
        return format!("{scheme}://{host}/***");
    }
    let has_login = url.split_once("://").is_some_and(|(_, rest)| split_hosts(rest).0.contains('@'));
    let login = if has_login { "***@" } else { "" };
    let path: Vec<&str> = path
        .split('/')
        .enumerate()
        .map(|(place, part)| if is_token(host, place, part) { "***" } else { part })
        .collect();
    let parameter = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) if is_secret_name(name) || looks_random(value) => format!("{name}=***"),
        Some(_) => parameter.to_owned(),
        None => "***".to_owned(),
    };
    let query = query.map_or_else(String::new, |query| {
        format!("?{}", query.split('&').map(parameter).collect::<Vec<_>>().join("&"))
    });
    format!("{scheme}://{login}{host}{}{query}{fragment}", path.join("/"))
}

/// Hosts whose webhooks have secrets in their paths, and the number of the first such part.
const WEBHOOKS: [(&str, usize); 7] = [
    ("hooks.slack.com", 2),
    ("hooks.zapier.com", 3),
    ("discord.com", 4),
    ("discordapp.com", 4),
    ("api.telegram.org", 1),
    ("maker.ifttt.com", 1),
    ("webhook.office.com", 2),
];

/// Returns whether a part of a path is a secret, by its host or by its look.
fn is_token(host: &str, place: usize, part: &str) -> bool {
    let host = host.split(':').next().unwrap_or_default().to_lowercase();
    let of = |name: &str| host == name || host.strip_suffix(name).is_some_and(|sub| sub.ends_with('.'));
    let known = WEBHOOKS.iter().any(|(name, first)| of(name) && place >= *first);
    !part.is_empty() && (known || looks_random(part))
}

fn is_secret_name(name: &str) -> bool {
    const WORDS: [&str; 12] =
        ["key", "token", "secret", "sig", "pass", "pwd", "auth", "code", "cred", "hash", "jwt", "session"];
    let name = name.to_lowercase();
    name.contains('%') || WORDS.iter().any(|word| name.contains(word))
}

/// Returns whether a text is long and unlike words: a token rather than a name. In doubt it is one.
fn looks_random(text: &str) -> bool {
    // A token may contain dashes, so long texts count as a whole, too.
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let letters = text.bytes().filter(u8::is_ascii_alphabetic).count();
    if text.len() >= 32 && digits >= 4 && letters >= 4 {
        return true;
    }
    text.contains('%')
        || text.split(['-', '_', '.', '~', '+', ',', ':']).any(|word| {
            let changes = word.as_bytes().windows(2).filter(|pair| class(pair[0]) != class(pair[1])).count();
            let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
            let mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
            // `orders2` and `orderPlaced` change seldom.
            match word.len() {
                24.. => true,
                20.. => mixed || changes >= 4,
                10.. => changes >= if mixed { 3 } else { 5 },
                8.. => mixed && changes >= 3,
                _ => false,
            }
        })
}

/// Returns the kind of a character.
fn class(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        _ => 3,
    }
}

/// Returns schemes, hosts and ports of several URLs that are separated by `;`: `amqp://one:5672;amqp://two`.
#[must_use]
pub fn origins(urls: &str) -> String {
    let shown = |url: &str| split_origin(url.trim()).map(|(scheme, host, _)| format!("{scheme}://{host}"));
    let all: Option<Vec<String>> = urls.split(';').map(shown).collect();
    all.map_or_else(hidden, |all| all.join(";"))
}

/// Returns scheme, host with port, and the rest.
fn split_origin(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = split_hosts(rest);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    // `user:pass/word@host`: the part that looks like a host is a login.
    let is_login = !authority.contains('@') && authority.contains(':') && path.contains('@');
    (are_hosts(host) && !is_login).then_some((scheme, host, path))
}

/// Returns everything but the login and the parameters: `amqp://***@rabbit:5672/shop?***`.
#[must_use]
pub fn without_login(url: &str) -> String {
    let Some(Parts { scheme, login, place, query }) = Parts::of(url) else { return hidden() };
    let login = if login.is_some() { "***@" } else { "" };
    let query = if query.is_some() { "?***" } else { "" };
    format!("{scheme}://{login}{place}{query}")
}

/// Returns everything but passwords, including passwords in parameters: `postgres://ann:***@db/shop?sslmode=require`.
#[must_use]
pub fn without_password(url: &str) -> String {
    let Some(Parts { scheme, login, place, query }) = Parts::of(url) else { return hidden() };
    let login = login.map_or_else(String::new, |login| match login.split_once(':') {
        Some((name, _)) => format!("{name}:***@"),
        None => format!("{login}@"),
    });
    let parameter = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) if name.to_lowercase().contains("password") => format!("{name}=***"),
        _ => parameter.to_owned(),
    };
    let query = query.map_or_else(String::new, |query| {
        format!("?{}", query.split('&').map(parameter).collect::<Vec<_>>().join("&"))
    });
    format!("{scheme}://{login}{place}{query}")
}

fn hidden() -> String {
    "***".to_owned()
}

fn split_hosts(rest: &str) -> (&str, &str) {
    rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()))
}

/// Returns whether these are hosts with ports, separated by commas. A port that is not a number is a password.
fn are_hosts(hosts: &str) -> bool {
    hosts.split(',').all(|host| {
        let end_of_address = host.rfind(']').map_or(0, |end| end + 1);
        let port = host[end_of_address..].split_once(':').map_or("", |(_, port)| port);
        port.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_no_login_no_path_and_no_query() {
        for (url, shown) in [
            ("https://a.example", "https://a.example"),
            ("https://a.example/", "https://a.example/"),
            ("https://a.example:8443/hunter2?key=hunter2", "https://a.example:8443/***"),
            ("https://a.example?mail=ann@b.example", "https://a.example/***"),
            ("https://ann:hunter2@a.example/x@y", "https://a.example/***"),
            ("http://[::1]:80/x", "http://[::1]:80/***"),
            ("amqp://ann:hunter2@rabbit//;amqp://ann:hunter2@other//", "amqp://rabbit/***"),
            ("amqp://ann:hunter2", "***"),
            ("amqp://ann:12/34@rabbit", "***"),
            ("hunter2", "***"),
        ] {
            assert_eq!(origin(url), shown);
        }
    }

    #[test]
    fn a_receivers_path_is_shown_and_its_secrets_are_not() {
        for (url, shown) in [
            ("https://a.example", "https://a.example"),
            ("https://a.example/", "https://a.example/"),
            ("https://a.example:8443/v2/order-events/in.json", "https://a.example:8443/v2/order-events/in.json"),
            ("https://a.example/api/orderPlaced/42", "https://a.example/api/orderPlaced/42"),
            ("https://a.example/webhooks-prod-eu1/2026", "https://a.example/webhooks-prod-eu1/2026"),
            ("http://[::1]:80/in?tenant=acme&page=2", "http://[::1]:80/in?tenant=acme&page=2"),
            ("https://ann:hunter2@a.example/in", "https://***@a.example/in"),
            (
                "https://a.example/in?api_key=hunter2&Signature=x&a=b",
                "https://a.example/in?api_key=***&Signature=***&a=b",
            ),
            ("https://a.example/in?hunter2", "https://a.example/in?***"),
            ("https://a.example/in#hunter2", "https://a.example/in#***"),
            // Of webhooks.
            (
                "https://hooks.slack.com/services/T0001/B0002/xoxbSecretToken",
                "https://hooks.slack.com/services/***/***/***",
            ),
            ("https://Hooks.Slack.com:443/services/T/B/x", "https://Hooks.Slack.com:443/services/***/***/***"),
            ("https://discord.com/api/webhooks/123456/aB-c_D", "https://discord.com/api/webhooks/123456/***"),
            ("https://api.telegram.org/bot123:abc/send", "https://api.telegram.org/***/***"),
            ("https://acme.webhook.office.com/webhookb2/x@y", "https://acme.webhook.office.com/***"),
            // Tokens by their look.
            ("https://a.example/hook/9f86d081884c7d65/in", "https://a.example/hook/***/in"),
            ("https://a.example/hook/aB3dE5fG7h", "https://a.example/hook/***"),
            ("https://a.example/hook/kqzvxjwmprtnhgfdsbclkqwz", "https://a.example/hook/***"),
            ("https://a.example/hook/T9pXkQvLmNzRwYbCdEfG", "https://a.example/hook/***"),
            ("https://a.example/0198c1f0-0000-7000-8000-000000000001/in", "https://a.example/***/in"),
            ("https://a.example/in?next=9f86d081884c7d65", "https://a.example/in?next=***"),
            ("https://a.example/a%2Fb", "https://a.example/***"),
            // More than a path.
            ("https://a.example/x;https://ann:hunter2@b.example/", "https://a.example/***"),
            ("amqp://ann:12/34@rabbit", "***"),
            ("hunter2", "***"),
        ] {
            assert_eq!(address(url), shown, "{url}");
        }
    }

    #[test]
    fn several_origins_are_shown_or_none() {
        assert_eq!(origins("amqp://ann:hunter2@a:1//; amqps://ann:hunter2@b/x"), "amqp://a:1;amqps://b");
        // A password with a semicolon.
        assert_eq!(origins("amqp://ann:12;34@rabbit"), "***");
    }

    #[test]
    fn logins_and_parameters_are_removed_and_the_place_stays() {
        for (url, shown) in [
            ("amqp://ann:hunter2@rabbit:5672//", "amqp://***@rabbit:5672//"),
            ("amqp://ann:hun@ter2@rabbit/shop?heartbeat=1", "amqp://***@rabbit/shop?***"),
            ("amqp://ann:hun?ter2@rabbit", "amqp://***@rabbit"),
            ("redis+socket:///run/redis.sock", "redis+socket:///run/redis.sock"),
            ("redis://:hunter2", "***"),
            ("hunter2", "***"),
        ] {
            assert_eq!(without_login(url), shown);
        }
    }

    #[test]
    fn passwords_are_removed_wherever_they_stand() {
        for (url, shown) in [
            ("postgres://ann:hunter2@db/shop", "postgres://ann:***@db/shop"),
            ("postgres://ann:hun@ter2@db/shop?a=b", "postgres://ann:***@db/shop?a=b"),
            ("postgres://ann@one:1,two:2/shop?sslmode=require", "postgres://ann@one:1,two:2/shop?sslmode=require"),
            ("postgres://db/shop?user=ann&password=hunter2", "postgres://db/shop?user=ann&password=***"),
            ("postgres://ann:hun?ter2@db/shop", "postgres://ann:***@db/shop"),
            ("postgres://ann:hunter2", "***"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
