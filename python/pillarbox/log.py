"""Warnings that a project reads in its own log: by structlog where it is set up, else by logging."""

from __future__ import annotations

import logging
from typing import Any

try:
    import structlog
except ImportError:  # pragma: no cover
    structlog = None


def warn(logger: logging.Logger, event: str, **fields: Any) -> None:
    """Warns of an event, with fields that can be searched for."""
    if structlog is not None and structlog.is_configured():
        structlog.get_logger(logger.name).warning(event, **fields)
    else:
        logger.warning("%s %s", event, " ".join(f"{key}={value}" for key, value in fields.items()), extra=fields)
