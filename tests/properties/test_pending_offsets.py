"""Offsets in transactions against a plain model.

After any history of commits, plain and in transactions, deletions and markers, a coordinator shows what the model does, as it is, when its
log is read again, and when that was compacted before.
"""

from hypothesis import given
from hypothesis import strategies as st

from millstream.groups.records import decode_record
from tests.machines.pending_offsets_model import PRODUCERS, OffsetsModel, Step
from tests.machines.pending_offsets_script import EndMarker, PendingOffsetsScript, Written

PARTITIONS = range(3)

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["plain", "pending", "pending", "commit", "abort", "delete"]),
        st.sampled_from(PRODUCERS),
        st.sampled_from(PARTITIONS),
    ),
    max_size=40,
)


def take(script: PendingOffsetsScript, step: Step, value: int) -> None:
    what, producer, partition = step
    if what == "plain":
        script.commit(value, partition=partition)
    elif what == "pending":
        script.commit_pending(producer, value, partition=partition)
    elif what == "delete":
        script.delete_offset(partition=partition)
    else:
        script.end(producer, is_commit=what == "commit")


def shown(script: PendingOffsetsScript) -> list[tuple[object, bool]]:
    seen = script.fetched(*PARTITIONS, is_stable_required=False)
    stable = script.fetched(*PARTITIONS)
    return [(offset, error == 0) for (offset, _), (_, error) in zip(seen, stable, strict=True)]


def compacted(entries: list[Written | EndMarker]) -> list[Written | EndMarker]:
    """Of what lies before every open transaction only the last record of a key, and none that was aborted; the markers stay."""
    is_committed: dict[int, bool] = {}
    open_records: dict[int, list[int]] = {}
    for offset, entry in enumerate(entries):
        if isinstance(entry, EndMarker):
            is_committed |= dict.fromkeys(open_records.pop(entry.producer_id, ()), entry.is_commit)
        elif entry.producer_id is not None:
            open_records.setdefault(entry.producer_id, []).append(offset)
    stable_end = min((offsets[0] for offsets in open_records.values()), default=len(entries))
    last: dict[bytes, int] = {}
    for offset, entry in enumerate(entries[:stable_end]):
        if isinstance(entry, Written) and is_committed.get(offset, True):
            last[entry.record.key] = offset
    kept = set(last.values())
    return [entry for offset, entry in enumerate(entries) if offset >= stable_end or isinstance(entry, EndMarker) or offset in kept]


@given(STEPS)
def test_coordinator_shows_what_the_model_does(steps: list[Step]) -> None:
    script, model = PendingOffsetsScript(), OffsetsModel()
    script.commit(0, partition=9)  # the group is there, whatever is deleted
    for value, step in enumerate(steps):
        take(script, step, value)
        model.take(step, value)
        assert shown(script) == model.shown(PARTITIONS)
    assert shown(script.restarted()) == model.shown(PARTITIONS)
    assert shown(PendingOffsetsScript(entries=compacted(script.entries), now_ms=script.now_ms)) == model.shown(PARTITIONS)


def test_the_compaction_of_this_file_leaves_out_what_does_not_count() -> None:
    script = PendingOffsetsScript()
    script.commit(1)
    script.commit_pending(1, 2)
    script.end(1, is_commit=False)
    script.commit_pending(2, 3)
    script.end(2, is_commit=True)
    script.commit_pending(3, 4)
    kept = [entry for entry in compacted(script.entries) if isinstance(entry, Written)]
    assert [decode_record(entry.record)[1].offset for entry in kept] == [3, 4]  # type: ignore[index, union-attr]
