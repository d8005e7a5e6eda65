"""A power cut after every file operation of a log with transactions: what is open and what was aborted is what its batches say."""

import shutil
from pathlib import Path

import pytest

from millstream.log.log import Log
from millstream.log.producer_state import ProducerState
from millstream.log.transactions.committed_reads import aborted_in
from millstream.log.transactions.open_transactions import AbortedTransaction
from millstream.wire.batch import split_batches
from tests.crash.forgetful_files import Fate, ForgetfulFiles, disk_after, materialise
from tests.crash.test_log_power_cut import CONFIG, TOPIC_ID, QuickFiles, release, started
from tests.unit.log.partition import flush, read_bytes
from tests.unit.log.transacted import Writer


def live(root: Path) -> ForgetfulFiles:
    """Transactions over several segments, flushed now and then, cut off once and closed in the end."""
    root.mkdir()
    files = ForgetfulFiles(root)
    manager = started(root, files)
    log = manager.create("orders", 0, topic_id=TOPIC_ID, config=CONFIG)
    writers = [Writer(log, producer_id) for producer_id in range(3)]
    for step in range(16):
        writers[step % 3].send(b"x" * 40)
        if step % 2:
            writers[step % 3].end(is_commit=step % 4 == 1)
        if step % 5 == 4:
            flush(log)
        if step % 7 == 6:
            manager.write_checkpoints()
    log.truncate_to(log.log_end_offset - 9)
    for producer_id in range(10, 16):
        writer = Writer(log, producer_id)
        writer.send(b"y" * 40)
        writer.abort()
    flush(log)
    manager.write_checkpoints()
    Writer(log, 20).send(b"z")
    manager.close()
    release(manager)
    return files


def said_by_batches(log: Log) -> tuple[int, list[AbortedTransaction]]:
    """The last stable offset and the aborted transactions, learned from the first batch on."""
    producers, aborted, offset = ProducerState(), [], 0
    while offset < log.log_end_offset:
        for header, batch in split_batches(read_bytes(log, offset)):
            if found := producers.learn(header, batch, base_offset=header.base_offset):
                aborted.append(found)
            offset = header.next_offset
    ongoing = producers.transactions.ongoing.values() if producers.transactions else ()
    return min(ongoing, default=log.log_end_offset), aborted


@pytest.mark.parametrize("fate", Fate)
def test_after_a_power_cut_at_any_moment_transactions_are_what_the_batches_say(tmp_path: Path, fate: Fate) -> None:
    root, after = tmp_path / "disk", tmp_path / "after"
    files = live(root)
    most = 0
    for moment in range(len(files.recording.operations) + 1):
        materialise(disk_after(files.recording, moment, fate), root=root, target=after)
        manager = started(after, QuickFiles())
        log = manager.get("orders", 0)
        if log is not None:
            known = log.last_stable_offset(log.log_end_offset), aborted_in(log, 0, log.log_end_offset)
            assert known == said_by_batches(log), f"{fate.name} after {moment} operations"
            most = max(most, len(known[1]))
        release(manager)
        shutil.rmtree(after)
    assert most > 5
