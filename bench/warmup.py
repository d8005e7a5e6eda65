"""Warming a broker with the very work that will be measured, until its cost no longer falls.

A JVM compiles hot code over tens of thousands of requests: batches of 50 cost a cold Kafka three times what they cost a minute later,
so the first cases of a run would flatter Penstock and their order would decide a ratio. A fixed amount of other traffic did not help
(other versions of a request are other code). So a case repeats its own round; the number of rounds is bounded, since on a busy
machine costs never hold quite still.
"""

from collections.abc import Callable

MOST_ROUNDS = 6
STEADY = 0.9


def until_steady(work: Callable[[int], float]) -> None:
    """Call `work` with 0, 1, 2 ... until the cost it returns is no longer a tenth below the round before, two rounds running."""
    previous = work(0)
    still = 0
    for number in range(1, MOST_ROUNDS):
        cost = work(number)
        still = still + 1 if cost > previous * STEADY else 0
        previous = cost
        if still == 2:
            return
