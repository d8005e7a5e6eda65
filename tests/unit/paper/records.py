"""Consumed messages made by hand, for tests of what is done with them."""

from typing import NamedTuple

from millstream.paper.message import ConsumedMessage


class HandMade(NamedTuple):
    """A record with the questions that librdkafka's messages answer."""

    where: tuple[str, int, int]
    its_key: bytes | None

    def topic(self) -> str:
        return self.where[0]

    def partition(self) -> int:
        return self.where[1]

    def offset(self) -> int:
        return self.where[2]

    def key(self) -> bytes | None:
        return self.its_key

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def headers(self) -> None:
        return None


def message(partition: int, offset: int, *, topic: str = "clicks", key: bytes | None = None) -> ConsumedMessage:
    return ConsumedMessage(b"%d-%d" % (partition, offset), HandMade((topic, partition, offset), key))
