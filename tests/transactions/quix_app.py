"""A program of Quix Streams in exactly-once mode, which tests kill: how many messages of each key there are in each window of a minute.

    python quix_app.py BROKERS SOURCE TARGET GROUP STATE LIFE

Runs in an environment of its own (see `test_quix`), so it imports nothing of ours.
"""

import sys
from datetime import timedelta

from quixstreams import Application  # type: ignore[import-not-found] # it has an environment of its own


def main() -> None:
    """Count for ever."""
    brokers, source, target, group, state = sys.argv[1:6]
    application = Application(
        broker_address=brokers,
        consumer_group=group,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=0.2,
        state_dir=state,
        loglevel="WARNING",
        producer_extra_config={"transaction.timeout.ms": 10_000},
        consumer_extra_config={"session.timeout.ms": 6_000},
    )
    messages = application.topic(source, value_deserializer="json", timestamp_extractor=lambda value, *_: value["time"])
    counts = application.topic(target, value_serializer="json")
    table = application.dataframe(messages)
    table = table.tumbling_window(timedelta(minutes=1)).count().current()
    table.to_topic(counts)
    application.run()


if __name__ == "__main__":
    main()
