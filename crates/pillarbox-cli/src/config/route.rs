//! `[[routes]]`: the destinations of events. The first match decides.

use pillarbox::{Pattern, Route};
use pillarbox_admin::condition;
use pillarbox_sinks::DestinationSettings;
use pillarbox_sinks::config::{Section, suggestion};

pub(super) fn lower(sections: Vec<Section<'_>>, destinations: &[DestinationSettings]) -> Vec<Route> {
    sections.into_iter().map(|section| lower_one(section, destinations)).collect()
}

fn lower_one(mut section: Section<'_>, destinations: &[DestinationSettings]) -> Route {
    let pattern = |given: Option<String>| Pattern::new(given.unwrap_or_else(|| "*".to_owned()));
    let known = || destinations.iter().map(|destination| destination.name.as_str());
    let check = |to: &Vec<String>| {
        let unknown = to.iter().find(|name| !known().any(|known| known == name.as_str()));
        let twice = to.iter().enumerate().find(|(at, name)| to[..*at].contains(name));
        match (unknown, twice) {
            (Some(unknown), _) => {
                Err(format!("names {unknown:?}, which is not a destination{}", suggestion(unknown, known())))
            }
            (_, Some((_, twice))) => {
                Err(format!("names {twice:?} twice; an event is delivered once to each of its destinations"))
            }
            _ if to.is_empty() => Err("is empty; name at least one destination".to_owned()),
            _ => Ok(()),
        }
    };
    let check_where = |path: &String| condition(path).map(drop).map_err(|error| format!("is {error}"));
    if !section.has("to") {
        section.problem("to", r#"is missing; name the destinations, like ["runner"]"#);
    }
    let route = Route {
        events: pattern(section.take("events")),
        aggregates: pattern(section.take("aggregates")),
        condition: section.take_checked("where", check_where).and_then(|path: String| condition(&path).ok()),
        to: section.take_checked("to", check).unwrap_or_default(),
    };
    section.finish();
    route
}
