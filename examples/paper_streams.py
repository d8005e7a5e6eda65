"""The interface of the paper: a producer, and a group of two consumers that share a topic through ZooKeeper, without a master.

millstream topic create page-views --partitions 4        (after `millstream serve &`)
python examples/paper_streams.py [BROKER [COORDINATION]]
"""
# ruff: noqa: INP001, T201 - an example is a script, and prints

import sys
import threading
from collections import Counter

from millstream import Consumer, Message, MessageSet, MessageStream, Producer

TOPIC = "page-views"
VISITORS = ("ann", "bob", "cat", "dan", "eve", "fay")
PAGES = 60


def send_page_views(brokers: str) -> None:
    """One set of messages; the visitor is the key, so each visitor's pages stay in order."""
    with Producer(brokers) as producer:
        producer.send(TOPIC, MessageSet([Message(f"/page/{number}", key=VISITORS[number % len(VISITORS)]) for number in range(PAGES)]))


def count_views(stream: MessageStream, views: Counter[str], is_enough: threading.Event) -> None:
    """Iterating a stream never ends; closing the consumer, from another thread, ends it."""
    for message in stream:
        views[(message.key or b"").decode()] += 1
        if views.total() == PAGES:
            is_enough.set()


def main() -> None:
    """Send, let two consumers share the work, and show what they found."""
    brokers = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
    coordination = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:2181"
    send_page_views(brokers)
    views: Counter[str] = Counter()
    is_enough = threading.Event()
    consumers = [Consumer(zookeeper=coordination, group="counters") for _ in range(2)]
    streams = [consumer.create_message_streams(TOPIC, 1)[0] for consumer in consumers]
    threads = [threading.Thread(target=count_views, args=(stream, views, is_enough)) for stream in streams]
    for thread in threads:
        thread.start()
    if not is_enough.wait(30):
        raise SystemExit(f"only {views.total()} of {PAGES} page views came")
    for consumer in consumers:
        consumer.close()
    for thread in threads:
        thread.join()
    for visitor in sorted(views):
        print(f"{visitor} saw {views[visitor]} pages")


if __name__ == "__main__":
    main()
