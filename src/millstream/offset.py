"""The offsets that are words: what Kafka's ListOffsets takes in place of a time."""

from typing import Final

LATEST: Final = -1
"""The offset after the last record that may be read."""
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
"""The record with the largest timestamp (KIP-734; brokers since Kafka 3.0)."""
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
