"""A consumer as a process of its own, to be killed: `python -m tests.crash.consumer_process KIND BOOTSTRAP GROUP TOPIC [INSTANCE]`.

Writes one line per message, `partition:number`, and only when the lines are written does it commit; so a message that the group lost is
one that no process ever wrote. `owns N` lines tell how many partitions it has. Reads no input, ends only by a signal.
"""

import sys

from tests.clients.group_consumer import CommitRefused, Membership
from tests.clients.group_kinds import BY_NAME


def consume(kind: str, bootstrap_servers: str, group: str, topic: str, instance: str | None = None) -> None:
    """Poll, tell, commit, for ever."""
    consumer = BY_NAME[kind].open(Membership(bootstrap_servers, group, (topic,), instance=instance))
    owned = -1
    while True:
        deliveries = consumer.poll()
        lines = [f"{delivery.partition} {delivery.offset} {delivery.value.decode()}" for delivery in deliveries]
        if len(consumer.assignment()) != owned:
            owned = len(consumer.assignment())
            lines.append(f"owns {owned}")
        if lines:
            print("\n".join(lines), flush=True)
        if deliveries:
            try:
                consumer.commit()
            except CommitRefused:
                continue


if __name__ == "__main__":
    consume(*sys.argv[1:])
