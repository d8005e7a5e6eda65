"""The differences that are known and stay, each with its reason. Whoever adds one writes here why it is right, or why it must wait."""

import re
from typing import NamedTuple

from tests.differential.answer import Compared, Difference


class Accepted(NamedTuple):
    """Fields of one API's answers that may differ."""

    api_key: int | None
    """None means any."""
    path: str
    """A regular expression for the whole path of the field."""
    reason: str
    kafka: str = ".*"
    ours: str = ".*"
    """Regular expressions for what each answers."""


PRODUCED = r"responses.*\.partition_responses\[\d+\]\.error_code"
OPTIONS_IN_ANSWERS = ((19, r"topics.*\.configs"), (32, r"results\[0\]\.configs"))

ACCEPTED = [
    Accepted(None, r"(.*\.)?error_message", "we say what is wrong where Kafka has only a code, or an empty sentence", kafka="None|"),
    Accepted(0, PRODUCED, "of two mistakes the other one", kafka="invalid_record", ours="invalid_timestamp"),
    Accepted(
        1,
        r"responses.*\.aborted_transactions",
        "Kafka has a list where it read nothing for want of bytes, but none where the first batch did not fit",
        kafka="None",
        ours=r"\[\]",
    ),
    Accepted(
        35,
        r"results\[0\]\.topics\.__(transaction_state|consumer_offsets)\..*\.partition_size",
        "how many records of a coordinator share a batch depends on how many are decided in the same turn of the loop",
    ),
    Accepted(44, r"responses\[\d\]\.error_code", "of two mistakes, one of them an operation that does not exist", ours="invalid_request"),
    Accepted(10, r"(.*\.)?error_message", "Kafka writes NONE where nothing is wrong", ours="None"),
    *(
        Accepted(api_key, rf"{path}\.check\.records", "an option of our own: whether records are looked at one by one", kafka=r"\(absent\)")
        for api_key, path in OPTIONS_IN_ANSWERS
    ),
    *(
        Accepted(
            api_key,
            rf"{path}\.min\.insync\.replicas\.(config_source|synonyms.*)",
            "Kafka sets a default for the cluster when it formats its storage with eligible leader replicas (KIP-966)",
        )
        for api_key, path in OPTIONS_IN_ANSWERS
    ),
]


OPEN: list[Accepted] = []
"""Differences that are to go: whoever makes the answer right takes the line away."""

WHOLE_ANSWERS: list[tuple[int | None, str, str]] = [
    (None, "'unknown_server_error'", "Kafka trips over the request: what it answers is an accident, ours says what is wrong"),
    (None, "(no answer in", "Kafka trips over the request and leaves the client waiting"),
]
"""Answers of Kafka's that are not compared, known by a piece of them."""


def not_accepted(api_key: int, compared: Compared) -> list[Difference]:
    """The differences that the lists have not."""
    answered = repr(compared.kafka)
    if any(key in {None, api_key} and text in answered for key, text, _ in WHOLE_ANSWERS) and not isinstance(compared.ours, str):
        return []
    return [one for one in compared.differences if not _is_accepted(api_key, one)]


def _is_accepted(api_key: int, difference: Difference) -> bool:
    return any(
        one.api_key in {None, api_key}
        and re.fullmatch(one.path, difference.path)
        and re.fullmatch(one.kafka, str(difference.kafka), re.DOTALL)
        and re.fullmatch(one.ours, str(difference.ours), re.DOTALL)
        for one in ACCEPTED + OPEN
    )
