"""Warming a broker with the very work that will be measured: one round of it, or (`--warm`) rounds until its cost no longer falls.

A JVM compiles hot code over tens of thousands of requests: batches of 50 cost a cold Kafka three times what they cost a minute later.
One unmeasured round is how the figures to beat were taken (a broker that has been up for a minute); `--warm` shows Kafka at its best,
as after days of the same work. A fixed amount of other traffic did not help (other versions of a request are other code). The number of
rounds is bounded, since on a busy machine costs never hold quite still.
"""

from collections.abc import Callable

MOST_ROUNDS = 6
STEADY = 0.9


def warm_up(work: Callable[[int], float], *, is_thorough: bool) -> None:
    """Call `work` once, or with 0, 1, 2 ... until the cost it returns is no longer a tenth below the round before, two rounds running."""
    previous = work(0)
    still = 0
    for number in range(1, MOST_ROUNDS if is_thorough else 1):
        cost = work(number)
        still = still + 1 if cost > previous * STEADY else 0
        previous = cost
        if still == 2:
            return
