//! Version 2 of Celery's message protocol: the headers and properties that every message has, and the defaults for those that a
//! producer left out. For their meaning, see "Message Protocol" in Celery's documentation.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::fields::Fields;
use super::recorded::{Body, Recorded};
use super::repr::{repr, repr_tuple};

/// Headers that the protocol defines. Headers of an application must have other names.
pub const PROTOCOL_HEADERS: [&str; 19] = [
    "lang",
    "task",
    "id",
    "shadow",
    "eta",
    "expires",
    "group",
    "group_index",
    "retries",
    "timelimit",
    "root_id",
    "parent_id",
    "argsrepr",
    "kwargsrepr",
    "origin",
    "ignore_result",
    "replaced_task_nesting",
    "stamped_headers",
    "stamps",
];

/// The headers whose default is `null`.
const NULL_HEADERS: [&str; 7] = ["shadow", "eta", "expires", "group", "group_index", "parent_id", "stamped_headers"];

impl Recorded<'_> {
    /// Fills in headers and properties that the producer left out. `task` and `id` are used if the headers have none.
    ///
    /// Values of the producer stay, with one exception: a `null` where workers need a value (`task`, `id`, `retries`,
    /// `root_id`) is replaced, too.
    ///
    /// # Errors
    /// If a text cannot be written as JSON, which is not known to happen.
    pub fn complete(&mut self, task: &str, id: &str) -> serde_json::Result<()> {
        let headers = &mut self.headers;
        headers.add("lang", "py")?;
        headers.fill("task", task)?;
        headers.fill("id", id)?;
        let id = headers.text("id").map_or_else(|| id.to_owned(), Cow::into_owned);
        headers.fill("root_id", &id)?;
        headers.fill("retries", &0)?;
        headers.add("timelimit", &[(); 2])?;
        headers.add("origin", ORIGIN)?;
        headers.add("ignore_result", &false)?;
        headers.add("replaced_task_nesting", &0)?;
        headers.add("stamps", &serde_json::Map::new())?;
        for name in NULL_HEADERS {
            headers.set_missing(name, RawValue::NULL);
        }
        self.complete_reprs()?;
        let properties = &mut self.properties;
        properties.fill("correlation_id", &id)?;
        properties.fill("reply_to", "")?;
        properties.fill("delivery_mode", &2)?;
        properties.fill("priority", &0)
    }

    /// Adds the arguments in readable form, if the body is JSON. Only logs use them.
    fn complete_reprs(&mut self) -> serde_json::Result<()> {
        if self.headers.contains("argsrepr") && self.headers.contains("kwargsrepr") {
            return Ok(());
        }
        let Body::Text(body) = &self.body else { return Ok(()) };
        let Ok((args, kwargs, _)) = serde_json::from_str::<(&RawValue, &RawValue, &RawValue)>(body) else {
            return Ok(());
        };
        self.headers.add("argsrepr", &repr_tuple(args))?;
        self.headers.add("kwargsrepr", &repr(kwargs))
    }
}

/// The origin of a message whose producer did not set one.
pub(crate) const ORIGIN: &str = "pillarbox";

/// The follow-ups of a task, each the JSON of signatures. This is the third part of a body.
#[derive(Debug, Clone, Copy, Default)]
pub struct Embed<'a> {
    /// A list of callbacks for the result (`link`).
    pub callbacks: Option<&'a RawValue>,
    /// A list of callbacks for a failure (`link_error`).
    pub errbacks: Option<&'a RawValue>,
    /// A list of the rest of the chain, in reverse order: the next one is last.
    pub chain: Option<&'a RawValue>,
    /// The body of the chord that this task is a part of.
    pub chord: Option<&'a RawValue>,
}

impl Body<'static> {
    /// Returns the body of a task, from JSON that is not serialised again: a list of arguments, an object of keyword
    /// arguments, and the follow-ups.
    #[must_use]
    pub fn of_task(args: &RawValue, kwargs: &RawValue, embed: &Embed<'_>) -> Self {
        let [callbacks, errbacks, chain, chord] = [embed.callbacks, embed.errbacks, embed.chain, embed.chord]
            .map(|part| part.unwrap_or(RawValue::NULL).get());
        let embed =
            format!(r#"{{"callbacks": {callbacks}, "errbacks": {errbacks}, "chain": {chain}, "chord": {chord}}}"#);
        Body::Text(Cow::Owned(format!("[{}, {}, {embed}]", args.get(), kwargs.get())))
    }
}

impl Fields<'_> {
    /// Sets a missing value. A `null` stays: Celery itself writes some, such as `ignore_result` of a task that it does not
    /// know.
    fn add(&mut self, name: &'static str, value: &(impl serde::Serialize + ?Sized)) -> serde_json::Result<()> {
        if self.contains(name) { Ok(()) } else { self.set(name, value) }
    }

    /// Sets a value that is missing or `null`.
    fn fill(&mut self, name: &'static str, value: &(impl serde::Serialize + ?Sized)) -> serde_json::Result<()> {
        match self.get(name) {
            Some(present) if present.get() != "null" => Ok(()),
            _ => self.set(name, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn completed(payload: &str) -> (Value, Value) {
        let payload = RawValue::from_string(payload.to_owned()).unwrap();
        let mut message = Recorded::read(&payload).unwrap().unwrap();
        message.complete("orders.fallback", "e1").unwrap();
        (serde_json::to_value(&message.headers).unwrap(), serde_json::to_value(&message.properties).unwrap())
    }

    #[test]
    fn the_least_message_gets_every_header_of_the_protocol() {
        let (headers, properties) =
            completed(r#"{"celery": 1, "body": "[[42], {\"a\": null}, {}]", "headers": {"task": "t", "id": "a1"}}"#);
        let expected = json!({
            "lang": "py", "task": "t", "id": "a1", "shadow": null, "eta": null, "expires": null, "group": null,
            "group_index": null, "retries": 0, "timelimit": [null, null], "root_id": "a1", "parent_id": null,
            "argsrepr": "(42,)", "kwargsrepr": "{'a': None}", "origin": "pillarbox", "ignore_result": false,
            "replaced_task_nesting": 0, "stamped_headers": null, "stamps": {}
        });
        assert_eq!(headers, expected);
        let expected = json!({ "correlation_id": "a1", "reply_to": "", "delivery_mode": 2, "priority": 0 });
        assert_eq!(properties, expected);
    }

    #[test]
    fn a_body_is_put_together_from_texts() {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        let chain = raw(r#"[{"task": "t"}]"#);
        let embed = Embed { chain: Some(&chain), ..Embed::default() };
        let body = Body::of_task(&raw("[1.50, 12345678901234567890123]"), &raw("{}"), &embed);
        let expected = concat!(
            r#"[[1.50, 12345678901234567890123], {}, "#,
            r#"{"callbacks": null, "errbacks": null, "chain": [{"task": "t"}], "chord": null}]"#
        );
        assert_eq!(body, Body::Text(expected.into()));
    }

    #[test]
    fn what_the_producer_wrote_stays() {
        let (headers, properties) = completed(
            r#"{"celery": 1, "body": {"base64": "gA=="}, "headers": {"task": null, "retries": 3, "argsrepr": "(…)",
                "ignore_result": null, "timelimit": [10, null], "mine": {"deep": 1}}, "properties": {"priority": 9, "delivery_mode": 1}}"#,
        );
        assert_eq!(
            (&headers["task"], &headers["id"], &headers["root_id"]),
            (&json!("orders.fallback"), &json!("e1"), &json!("e1"))
        );
        assert_eq!((&headers["retries"], &headers["timelimit"]), (&json!(3), &json!([10, null])));
        assert_eq!(headers["ignore_result"], Value::Null, "as Celery writes it for a task that it does not know");
        assert_eq!((&headers["mine"], &headers["argsrepr"]), (&json!({"deep": 1}), &json!("(…)")));
        assert_eq!(headers.get("kwargsrepr"), None, "a body that is not JSON is not looked into");
        assert_eq!(properties["correlation_id"], "e1");
        assert_eq!((&properties["priority"], &properties["delivery_mode"]), (&json!(9), &json!(1)));
    }
}
