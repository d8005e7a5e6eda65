"""What a stream hands out and what it lets commit, under any order of pulling, handing out, leaving the loop, rebalances and commits.

Against a list: nothing is handed out twice or skipped, and what may be committed has been handed out and asked past.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from millstream.paper.message import ConsumedMessage
from millstream.paper.progress import Claim, Progress
from tests.unit.paper.records import message

PARTITIONS = (0, 1, 2)


class Handing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.progress = Progress()
        self.handed: dict[int, list[int]] = {partition: [] for partition in PARTITIONS}
        self.in_hand: ConsumedMessage | None = None
        self.loop: list[ConsumedMessage] = []
        self.is_interrupted = True
        self.claims = {partition: Claim("clicks", partition, start=0, version=0) for partition in PARTITIONS}

    def handled(self, partition: int) -> int:
        """How many messages of the partition have been handed out and asked past."""
        count = len(self.handed[partition])
        return count - 1 if self.in_hand is not None and self.in_hand.partition == partition else count

    @rule(counts=st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=6))
    def the_loop_asks_for_more(self, counts: list[int]) -> None:
        self.progress.ask()
        self.in_hand = None
        self.is_interrupted = False
        if not self.progress.rest:
            places = {partition: claim.next for partition, claim in self.progress.claims.items()}
            batch = []
            for partition in counts:
                if partition in places:
                    batch.append(message(partition, places[partition]))
                    places[partition] += 1
            self.progress.begin(batch, is_first=True)
        self.loop = list(self.progress.rest)

    @precondition(lambda self: self.loop)
    @rule()
    def the_loop_hands_out(self) -> None:
        self.progress.in_hand = following = self.loop.pop(0)
        if self.is_interrupted:
            self.progress.withdraw(following)
            self.in_hand = None
            self.loop = []
        else:
            self.in_hand = following
            self.handed[following.partition].append(following.offset)

    @rule(partition=st.sampled_from(PARTITIONS))
    def the_group_takes_a_partition_away_or_gives_it(self, partition: int) -> None:
        self.is_interrupted = True
        self.progress.interrupt()
        if partition in self.progress.claims:
            self.progress.claims.pop(partition)
        else:
            self.progress.claims[partition] = self.claims[partition]

    @rule()
    def another_owner_commits(self) -> None:
        for claim in self.progress.changed():
            claim.stored = claim.handled

    @rule()
    def the_holder_commits(self) -> None:
        self.progress.vouch()
        self.in_hand = None
        self.another_owner_commits()

    @invariant()
    def every_message_is_handed_out_once_and_in_order(self) -> None:
        for offsets in self.handed.values():
            assert offsets == list(range(len(offsets)))

    @invariant()
    def what_is_committed_has_been_handled(self) -> None:
        for partition, claim in self.claims.items():
            assert claim.handled <= self.handled(partition)
            assert claim.handled <= claim.next

    @invariant()
    def what_has_been_handled_can_be_committed(self) -> None:
        if self.progress.in_hand is None:
            for partition, claim in self.progress.claims.items():
                assert claim.handled == self.handled(partition)


TestHanding = Handing.TestCase
TestHanding.settings = settings(max_examples=100, stateful_step_count=40)
