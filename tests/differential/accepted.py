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


OPTIONS_IN_ANSWERS = ((19, r"topics\..*\.configs"), (32, r"results\[0\]\.configs"))

ACCEPTED = [
    Accepted(None, r"(.*\.)?error_message", "we say what is wrong where Kafka has only a code, or an empty sentence", kafka="None|"),
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


KAFKAS_OWN_MISTAKES = ("'unknown_server_error'", "(no answer in")
"""Kafka trips over some bad requests: what it answers then is an accident, or nothing at all. Ours are refused for what is wrong."""


def not_accepted(api_key: int, compared: Compared) -> list[Difference]:
    """The differences that the list has not."""
    if any(mistake in repr(compared.kafka) for mistake in KAFKAS_OWN_MISTAKES) and not isinstance(compared.ours, str):
        return []
    return [one for one in compared.differences if not _is_accepted(api_key, one)]


def _is_accepted(api_key: int, difference: Difference) -> bool:
    return any(
        one.api_key in {None, api_key}
        and re.fullmatch(one.path, difference.path)
        and re.fullmatch(one.kafka, str(difference.kafka), re.DOTALL)
        and re.fullmatch(one.ours, str(difference.ours), re.DOTALL)
        for one in ACCEPTED
    )
