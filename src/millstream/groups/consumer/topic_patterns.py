"""Regular expressions that members of KIP-848 groups subscribe with, matched so that no expression can hold up the broker.

Kafka uses RE2J; here it is RE2 itself (`google-re2`), which has the same syntax: no look-around, no back references, matching in time
linear in the text. A whole topic name has to match. Linear is not yet harmless: RE2 was measured at up to 16 ns per byte of text and
instruction of the program that an expression is compiled to, and `(a?){500}` twenty times over takes 30 ms for one name. So

  * a program may have 1 000 instructions (about 1 000 characters of a plain expression) and 1 MiB; more is INVALID_REGULAR_EXPRESSION.
    The worst that was found within these limits is 2.5 ms for a name of 249 characters;
  * names are matched in slices. Every slice is paid for in advance out of a `MatchingBudget` that all groups of a shard share: it holds
    5 ms of the worst case and gets 0.2 ms back with every millisecond. What cannot be paid is matched by a later tick. Usual expressions
    are paid for at once (a thousand topics in one go); hostile ones get a fifth of the time at most, whatever their number.

Python's `re` backtracks: `(x+x+)+y` takes for ever on thirty characters. An automaton of our own would be safe, too, but it would have to
parse RE2's syntax to the letter, in Python, to be half as good; google-re2 is a wheel of 0.6 MB, kept by RE2's authors.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from millstream.errors import InvalidRegularExpression

MAX_PATTERN_BYTES: Final = 32_767
"""What fits into the key of its record."""
_MAX_PROGRAM_SIZE: Final = 1_000
_MAX_MEMORY_BYTES: Final = 1 << 20
_COST_PER_NAME_NS: Final = 2_000
_COST_PER_STEP_NS: Final = 10
_COMPILE_COST_NS: Final = 1_000_000


class TopicPattern:
    """A compiled expression."""

    __slots__ = ("_program", "_program_size")

    def __init__(self, text: str) -> None:
        # Loaded with the first expression: most brokers never see one.
        import re2

        if len(text.encode(errors="surrogatepass")) > MAX_PATTERN_BYTES:
            raise InvalidRegularExpression(f"A regular expression may have {MAX_PATTERN_BYTES} bytes, this one has {len(text)} characters.")
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True  # Groups that capture would keep RE2 from using its automaton.
        options.max_mem = _MAX_MEMORY_BYTES
        try:
            self._program = re2.compile(text.encode(), options)
        except re2.error as error:
            reason = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
            raise InvalidRegularExpression(f"SubscribedTopicRegex `{text}` is not a valid regular expression: {reason}.") from None
        except UnicodeEncodeError:
            raise InvalidRegularExpression("SubscribedTopicRegex is not valid Unicode.") from None
        self._program_size: int = self._program.programsize
        if self._program_size > _MAX_PROGRAM_SIZE:
            raise InvalidRegularExpression(
                f"SubscribedTopicRegex is too complex: it takes {self._program_size} steps of RE2, {_MAX_PROGRAM_SIZE} are allowed."
            )

    def matches(self, topic: str) -> bool:
        """Whether the whole name matches."""
        return self._program.fullmatch(topic.encode()) is not None

    def cost_ns(self, topic: str) -> int:
        """About what matching the name takes in the worst case."""
        return _COST_PER_NAME_NS + _COST_PER_STEP_NS * self._program_size * len(topic)


@lru_cache(maxsize=32)
def topic_pattern(text: str) -> TopicPattern:
    """The compiled expression, kept for the next one who needs it; InvalidRegularExpression if it is none or too complex."""
    return TopicPattern(text)


class MatchingBudget:
    """The time that matching may take, shared by all groups of a shard."""

    __slots__ = ("_left_ns", "_refilled_at_ms")

    capacity_ns: Final = 5_000_000
    refill_ns_per_ms: Final = 200_000

    def __init__(self) -> None:
        self._left_ns = self.capacity_ns
        self._refilled_at_ms: int | None = None

    def refill(self, now_ms: int) -> None:
        """Take time into account."""
        if self._refilled_at_ms is not None and now_ms > self._refilled_at_ms:
            self._left_ns = min(self.capacity_ns, self._left_ns + (now_ms - self._refilled_at_ms) * self.refill_ns_per_ms)
        if self._refilled_at_ms is None or now_ms > self._refilled_at_ms:
            self._refilled_at_ms = now_ms

    def spend(self, cost_ns: int) -> bool:
        """Pay, if anything is left; the last payment may go below zero, so that everything can be paid some time."""
        if self._left_ns <= 0:
            return False
        self._left_ns -= cost_ns
        return True


class TopicScan:
    """The search for the topics that an expression matches, in slices."""

    __slots__ = ("_names", "_pattern", "_position", "matched", "text")

    def __init__(self, text: str, *, names: Sequence[str], already_matched: Iterable[str] = ()) -> None:
        self.text = text
        self.matched = set(already_matched)
        self._names = names
        self._position = 0
        self._pattern: TopicPattern | None = None

    def proceed(self, budget: MatchingBudget) -> bool:
        """Match as many names as the budget pays for; whether all are done."""
        if self._pattern is None and self._names:
            if not budget.spend(_COMPILE_COST_NS):
                return False
            self._pattern = self._compile()
        pattern = self._pattern
        if pattern is None:
            return True
        for position in range(self._position, len(self._names)):
            name = self._names[position]
            if not budget.spend(pattern.cost_ns(name)):
                self._position = position
                return False
            if pattern.matches(name):
                self.matched.add(name)
        self._position = len(self._names)
        return True

    def _compile(self) -> TopicPattern | None:
        """None for an expression that a broker with other limits accepted: it matches nothing new."""
        try:
            return topic_pattern(self.text)
        except InvalidRegularExpression:
            return None
