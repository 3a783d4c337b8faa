//! Assigns returned messages to the messages that were sent. A return has no delivery tag, and the client attaches it to
//! the next confirm, which can be that of another message. Pure.

use lapin::message::BasicReturnMessage;

use super::failure;
use super::publish::{Outcome, Parcel};

/// Marks each returned message as failed. If confirms are missing, a confirmed message may have a return that has not been
/// handed out yet. Then no confirm counts, and these messages are sent again.
pub(super) fn assign(
    returned: Vec<BasicReturnMessage>,
    parcels: &[&Parcel<'_>],
    outcomes: &mut [Outcome],
    declares: bool,
) {
    let mut is_doubtful = false;
    for message in returned {
        let is_open = |outcome: &Outcome| !matches!(outcome, Outcome::Answered(Err(_)));
        let owner = (0..parcels.len()).find(|&at| is_open(&outcomes[at]) && parcels[at].is(&message));
        match owner {
            Some(at) => {
                is_doubtful |= !matches!(outcomes[at], Outcome::Answered(Ok(())));
                let error = failure::returned(&message, &parcels[at].target, declares);
                outcomes[at] = Outcome::Answered(Err(error));
            }
            // The broker also nacked it, so it has its result already.
            None if parcels.iter().any(|parcel| parcel.is(&message)) => {}
            None => {
                is_doubtful = true;
                tracing::error!(
                    exchange = %message.exchange,
                    routing_key = %message.routing_key,
                    "RabbitMQ returned an unknown message"
                );
            }
        }
    }
    if is_doubtful {
        let confirmed = outcomes.iter_mut().filter(|outcome| matches!(outcome, Outcome::Answered(Ok(()))));
        confirmed.for_each(|outcome| *outcome = Outcome::Unanswered);
    }
}

#[cfg(test)]
mod tests {
    use chrono::Utc;
    use lapin::BasicProperties;
    use lapin::message::Delivery;
    use pillarbox::StoredEvent;

    use super::*;
    use crate::celery::message::Outgoing;
    use crate::celery::route::Routing;
    use crate::celery::settings::CelerySettings;

    fn came_back(id: &str) -> BasicReturnMessage {
        let mut delivery = Delivery::mock(0, "".into(), "orders".into(), false, Vec::new());
        delivery.properties = BasicProperties::default().with_correlation_id(id.into());
        BasicReturnMessage { delivery, reply_code: 312, reply_text: "NO_ROUTE".into() }
    }

    /// Returns the outcomes of a, b and c when these are returned: whether each is Ok, or `None` if it is unknown.
    fn assigned(returned: &[&str], outcomes: [Outcome; 3]) -> [Option<bool>; 3] {
        let events = ["a", "b", "c"].map(|id| {
            let payload = format!(
                r#"{{"celery": 1, "body": "[]", "exchange": "", "routing_key": "orders", "headers": {{"task": "t", "id": "{id}"}}}}"#
            );
            StoredEvent::task_for_tests("t", &payload)
        });
        let routing = Routing::new(&CelerySettings::new("amqp://localhost//".to_owned()));
        let messages = events.each_ref().map(|event| Outgoing::new(event, None).unwrap());
        let parcels = messages
            .each_ref()
            .map(|message| Parcel::new(0, message, routing.resolve(message, Utc::now(), true)).unwrap());
        let mut outcomes = outcomes;
        assign(returned.iter().map(|id| came_back(id)).collect(), &parcels.each_ref(), &mut outcomes, false);
        outcomes.map(|outcome| match outcome {
            Outcome::Answered(answer) => Some(answer.is_ok()),
            Outcome::Closed(_) | Outcome::Unanswered => None,
        })
    }

    #[test]
    fn what_came_back_was_not_delivered_whosever_confirm_it_came_with() {
        let confirmed = || Outcome::Answered(Ok(()));
        let all = || [confirmed(), confirmed(), confirmed()];
        assert_eq!(assigned(&[], all()), [Some(true); 3]);
        assert_eq!(assigned(&["b"], all()), [Some(true), Some(false), Some(true)]);
        assert_eq!(assigned(&["c", "a"], all()), [Some(false), Some(true), Some(false)]);
    }

    #[test]
    fn a_confirm_does_not_count_while_its_return_may_be_on_its_way() {
        let confirmed = || Outcome::Answered(Ok(()));
        // The return of b came with the confirm of a or of c. The return of that one may come next.
        assert_eq!(assigned(&["b"], [confirmed(), Outcome::Unanswered, confirmed()]), [None, Some(false), None]);
        assert_eq!(assigned(&["unknown"], [confirmed(), confirmed(), Outcome::Unanswered]), [None; 3]);
        // Every returned message is confirmed, so no other return is on its way.
        let outcomes = [confirmed(), confirmed(), Outcome::Unanswered];
        assert_eq!(assigned(&["b"], outcomes), [Some(true), Some(false), None]);
    }
}
