"""Members that have not been heard from for most of their session: said once, before the session ends and their partitions go to others.

A killed consumer looks like this, and whoever waits for its partitions wants to know for how long. Clients send heartbeats at least three
times per session, so that two have been missed by then. Nothing is noted when a heartbeat comes: the deadline that was reported is
remembered, and a member that came back has another one. Pure, but for the line.
"""

import logging

logger = logging.getLogger(__name__)


def due_ms(deadline_ms: int, timeout_ms: int) -> int:
    """When two thirds of a session that ends then have passed."""
    return deadline_ms - timeout_ms // 3


def report(group_id: str, member_id: str, *, deadline_ms: int, timeout_ms: int, now_ms: int) -> None:
    """Say for how long nothing has come, and when that ends."""
    left_ms = max(deadline_ms - now_ms, 0)
    logger.info(
        "group %s: %s did not send a heartbeat for %.1f s; its session ends in %.1f s",
        group_id,
        member_id,
        (timeout_ms - left_ms) / 1000,
        left_ms / 1000,
    )
