//! HTTP passes the suite of all sinks, as far as HTTP has its cases: a receiver's 401 is a response like any other, and no
//! body is too large for the protocol.

use pillarbox_testkit::brokers::HttpBroker;

pillarbox_testkit::sink_suite! { in HttpBroker::start;
    every_confirmed_message_arrives_once,
    bytes_and_headers_arrive_as_they_were_sent,
    an_opaque_payload_arrives_as_its_bytes,
    an_unknown_target_is_the_targets_fault,
    a_server_that_is_down_is_an_outage_until_it_is_back,
    a_server_killed_in_the_middle_loses_nothing,
    a_silent_server_is_given_up_in_time,
    a_cancelled_batch_leaves_the_sink_usable,
}
