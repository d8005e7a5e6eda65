"""A consumer in a process of its own, to be killed or paused: notes each message in a file before it asks for the next.

python -m tests.paper.consumer_process COORDINATION GROUP TOPIC ID FILE SECONDS_PER_MESSAGE
"""

import sys
import time
from pathlib import Path

from millstream import Consumer


def main() -> None:
    coordination, group, topic, consumer_id, file, pause = sys.argv[1:]
    with (
        Path(file).open("ab", buffering=0) as notes,
        Consumer(coordination, group, consumer_id=consumer_id, auto_commit_interval_s=0.1, session_timeout_s=3.0) as consumer,
    ):
        [stream] = consumer.create_message_streams(topic)
        notes.write(b"joined\n")
        for message in stream:
            notes.write(b"%d %d %s\n" % (message.partition, message.offset, message.payload))
            time.sleep(float(pause))


if __name__ == "__main__":
    main()
