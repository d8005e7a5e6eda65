"""The differences that are known and stay, each with its reason. Whoever adds one writes here why it is right, or why it must wait."""

import re
from typing import NamedTuple

from tests.differential.answer import Difference


class Accepted(NamedTuple):
    """Fields of one API's answers that may differ."""

    api_key: int
    path: str
    """A regular expression for the whole path of the field."""
    reason: str
    kafka: str = ".*"
    ours: str = ".*"
    """Regular expressions for what each answers."""


OPTIONS_IN_ANSWERS = ((19, r"topics\..*\.configs"), (32, r"results\[0\]\.configs"))

ACCEPTED = [
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


def is_accepted(api_key: int, version: int, difference: Difference) -> bool:
    """Whether the list has it."""
    return any(
        one.api_key == api_key
        and re.fullmatch(one.path, difference.path)
        and re.fullmatch(one.kafka, str(difference.kafka), re.DOTALL)
        and re.fullmatch(one.ours, str(difference.ours), re.DOTALL)
        for one in ACCEPTED
    )
