-- The tables of django-celery-outbox 0.4.3 as its own migrations make them on MariaDB, with the default character set of the
-- database. MariaDB creates indexes with a condition without it. A test of the Python package keeps this true.

CREATE TABLE celery_outbox (
    id bigint(20) NOT NULL AUTO_INCREMENT,
    created_at datetime(6) NOT NULL,
    updated_at datetime(6) DEFAULT NULL,
    retries smallint(6) NOT NULL,
    retry_after datetime(6) DEFAULT NULL,
    task_id varchar(255) NOT NULL,
    task_name varchar(255) NOT NULL,
    args longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL CHECK (json_valid(args)),
    kwargs longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL CHECK (json_valid(kwargs)),
    options longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL CHECK (json_valid(options)),
    sentry_trace_id varchar(512) DEFAULT NULL,
    sentry_baggage longtext DEFAULT NULL,
    structlog_context longtext DEFAULT NULL,
    schema_version smallint(6) NOT NULL,
    redacted_args longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(redacted_args)),
    redacted_kwargs longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(redacted_kwargs)),
    PRIMARY KEY (id),
    KEY celery_outbox_pending_idx (id),
    KEY celery_outbox_task_id_e223c01d (task_id),
    KEY celery_outbox_task_name_823837dd (task_name),
    KEY celery_outbox_retry_idx (retry_after,id),
    KEY celery_outbox_stale_idx (updated_at,id)
);

CREATE TABLE celery_outbox_dead_letter (
    id bigint(20) NOT NULL AUTO_INCREMENT,
    created_at datetime(6) NOT NULL,
    dead_at datetime(6) NOT NULL,
    retries smallint(6) NOT NULL,
    task_id varchar(255) NOT NULL,
    task_name varchar(255) NOT NULL,
    args longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL CHECK (json_valid(args)),
    kwargs longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL CHECK (json_valid(kwargs)),
    options longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL CHECK (json_valid(options)),
    sentry_trace_id varchar(512) DEFAULT NULL,
    sentry_baggage longtext DEFAULT NULL,
    structlog_context longtext DEFAULT NULL,
    failure_reason longtext DEFAULT NULL,
    schema_version smallint(6) NOT NULL,
    redacted_args longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(redacted_args)),
    redacted_kwargs longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(redacted_kwargs)),
    PRIMARY KEY (id),
    KEY celery_outbox_dead_letter_task_id_8cf21956 (task_id),
    KEY celery_outbox_dead_letter_task_name_0ad546bd (task_name),
    KEY celery_outbox_dlq_dead_at_idx (dead_at),
    KEY celery_outbox_dlq_created_idx (created_at)
);

