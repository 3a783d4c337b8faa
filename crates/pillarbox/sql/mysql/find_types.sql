-- Find: existing aggregate types, at most a thousand, by skipping from one to the next in the index of aggregates. ?1, the number of
-- events to search where no index has them, is not needed: this index has delivered events, too.
SELECT DISTINCT aggregate_type FROM outbox_event LIMIT 1000
