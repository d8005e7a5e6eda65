from millstream.paper.message import ConsumedMessage
from millstream.paper.progress import Claim, Progress
from tests.unit.paper.records import message


def progress_of(*partitions: int, start: int = 0) -> Progress:
    made = Progress()
    made.claims = {partition: Claim("clicks", partition, start=start, version=0) for partition in partitions}
    return made


def offsets(progress: Progress) -> dict[int, tuple[int, int]]:
    """What may be committed, and what comes next, of each partition."""
    return {partition: (claim.handled, claim.next) for partition, claim in progress.claims.items()}


def hand_out(progress: Progress, count: int) -> list[ConsumedMessage]:
    handed = list(progress.rest[:count])
    for one in handed:
        progress.in_hand = one
    return handed


def test_a_message_in_hand_is_not_handled_and_those_before_it_are() -> None:
    progress = progress_of(0)
    progress.begin([message(0, offset) for offset in range(5)], is_first=False)
    hand_out(progress, 3)
    progress.settle()
    assert progress.claims[0].handled == 2


def test_asking_for_the_next_message_says_that_the_one_in_hand_was_handled() -> None:
    progress = progress_of(0)
    progress.begin([message(0, offset) for offset in range(3)], is_first=False)
    hand_out(progress, 3)
    progress.ask()
    assert offsets(progress) == {0: (3, 3)}
    assert not progress.rest


def test_each_partition_has_its_own_offset() -> None:
    progress = progress_of(0, 1)
    progress.begin([message(0, 0), message(1, 0), message(0, 1), message(1, 1)], is_first=False)
    hand_out(progress, 3)
    progress.settle()
    assert {partition: claim.handled for partition, claim in progress.claims.items()} == {0: 1, 1: 1}


def test_offsets_may_have_gaps() -> None:
    progress = progress_of(0)
    progress.begin([message(0, 3), message(0, 9)], is_first=False)
    hand_out(progress, 2)
    progress.ask()
    assert offsets(progress) == {0: (10, 10)}


def test_a_loop_that_was_left_goes_on_with_the_next_message() -> None:
    progress = progress_of(0)
    progress.begin([message(0, offset) for offset in range(4)], is_first=False)
    hand_out(progress, 2)
    progress.ask()
    assert [one.offset for one in progress.rest] == [2, 3]
    assert progress.claims[0].handled == 2


def test_an_interrupted_batch_goes_on_after_the_message_in_hand() -> None:
    progress = progress_of(0, 1)
    progress.begin([message(0, 0), message(1, 0), message(0, 1)], is_first=False)
    hand_out(progress, 2)
    progress.interrupt()
    assert offsets(progress) == {0: (1, 1), 1: (0, 1)}
    assert progress.is_in_hand(progress.claims[1])
    assert not progress.rest
    progress.ask()
    assert offsets(progress) == {0: (1, 1), 1: (1, 1)}


def test_a_message_in_hand_is_handled_for_a_claim_that_was_taken_away_meanwhile() -> None:
    progress = progress_of(0)
    progress.begin([message(0, 0)], is_first=False)
    hand_out(progress, 1)
    progress.interrupt()
    claim = progress.claims.pop(0)
    assert claim.handled == 0
    progress.ask()
    assert claim.handled == 1


def test_a_message_that_was_put_in_hand_too_late_is_not_handed_out() -> None:
    """The loop puts the second message in hand, and sees then that the batch was interrupted: before, or after it had done so."""
    for is_seen in (False, True):
        progress = progress_of(0)
        batch = [message(0, 0), message(0, 1)]
        progress.begin(batch, is_first=False)
        progress.in_hand = batch[0]
        if is_seen:
            progress.in_hand = batch[1]
        progress.interrupt()
        progress.in_hand = batch[1]
        progress.withdraw(batch[1])
        assert offsets(progress) == {0: (1, 1)}
        assert progress.in_hand is None


def test_a_message_that_is_withdrawn_from_a_batch_that_goes_on_comes_again() -> None:
    progress = progress_of(0)
    batch = [message(0, 0), message(0, 1)]
    progress.begin(batch, is_first=False)
    hand_out(progress, 2)
    progress.withdraw(batch[1])
    assert offsets(progress) == {0: (1, 1)}
    assert list(progress.rest) == batch[1:]


def test_nothing_was_handed_out_when_the_very_first_message_is_withdrawn_after_an_interruption() -> None:
    progress = progress_of(0)
    batch = [message(0, 0)]
    progress.begin(batch, is_first=False)
    progress.interrupt()
    progress.in_hand = batch[0]
    progress.withdraw(batch[0])
    assert offsets(progress) == {0: (0, 0)}


def test_a_rewind_is_not_undone_by_the_message_in_hand() -> None:
    progress = progress_of(0, start=5)
    progress.begin([message(0, 5), message(0, 6)], is_first=False)
    hand_out(progress, 2)
    progress.interrupt()
    progress.claims[0].move_to(2)
    progress.ask()
    assert offsets(progress) == {0: (2, 2)}


def test_whoever_vouches_for_the_message_in_hand_may_commit_it() -> None:
    progress = progress_of(0)
    progress.begin([message(0, 0), message(0, 1)], is_first=False)
    hand_out(progress, 1)
    progress.vouch()
    assert offsets(progress) == {0: (1, 1)}
    assert [one.offset for one in progress.rest] == [1]


def test_late_news_of_a_former_claim_are_left_out_of_the_first_batch() -> None:
    progress = progress_of(0, start=10)
    progress.begin([message(0, 8), message(3, 0), message(0, 10)], is_first=True)
    assert [(one.partition, one.offset) for one in progress.rest] == [(0, 10)]


def test_only_what_differs_from_what_is_stored_has_to_be_stored() -> None:
    progress = progress_of(0, 1)
    for claim in progress.claims.values():
        claim.stored = 0
    progress.begin([message(0, 0), message(0, 1)], is_first=False)
    hand_out(progress, 2)
    assert [(claim.partition, claim.handled) for claim in progress.changed()] == [(0, 1)]


def test_each_message_is_counted_once_when_it_has_been_handled() -> None:
    counted: list[int] = []
    progress = Progress(lambda messages: counted.extend(one.offset for one in messages))
    progress.claims = {0: Claim("clicks", 0, start=0, version=0)}
    progress.begin([message(0, offset) for offset in range(6)], is_first=False)
    hand_out(progress, 2)
    progress.settle()
    assert counted == [0]
    progress.interrupt()
    progress.vouch()
    progress.vouch()
    progress.ask()
    assert counted == [0, 1]
    progress.begin([message(0, offset) for offset in range(2, 6)], is_first=False)
    [*_, last] = hand_out(progress, 4)
    progress.interrupt()
    progress.claims[0].move_to(0)
    progress.withdraw(last)
    assert counted == [0, 1, 2, 3, 4]
