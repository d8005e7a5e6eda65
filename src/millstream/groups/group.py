"""A group of either kind, as its shard keeps them by id: what both offer is what the shard asks.

A group is a pure machine. It is changed by commands, by time (`tick`), by topics that change, and, while the log is replayed, by records;
what it decides comes back as an `Outcome`. `check_...` raises the `KafkaError` that the client gets and returns None when all is well.

Deadlines: `next_deadline_ms` may be earlier than anything really due (a heartbeat only moves deadlines away, so a group need not look for
the earliest one each time), but never later. A `tick` that finds nothing due returns an empty outcome and computes the bound anew.
"""

from millstream.groups.classic.group import ClassicGroup
from millstream.groups.consumer.group import ConsumerGroup

Group = ClassicGroup | ConsumerGroup
