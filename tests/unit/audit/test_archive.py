from typing import Any

import pytest

from millstream.audit.archive import Archive
from millstream.audit.ledger import Bucket
from millstream.audit.reports.report import Kind
from millstream.audit.topic_head import Tier
from millstream.audit.verdict import Place, Row, Verdict
from tests.unit.audit.some_reports import DELAY

LOG = Tier("broker", Kind.BROKER, "live")
BILLING = Tier("billing", Kind.CONSUMER, "live")


def row(bucket: int, tier: Tier, count: int, **more: object) -> Row:
    fields: dict[str, object] = {
        **dict.fromkeys(("missing", "surplus", "repeated", "malformed", "control", "aborted"), 0),
        "expected": count,
        "delay": None,
        "verdict": Verdict.COMPLETE,
        **more,
    }
    return Row(topic="orders", bucket=bucket, tier=tier, count=count, bytes=count * 10, **fields)  # type: ignore[arg-type]


LOST = (Place("broker", 0, 10, ((40, 50),)),)
ROWS = [
    [row(0, LOG, 100, control=2)],
    [row(600_000, LOG, 100), row(600_000, BILLING, 90, expected=100, missing=10, verdict=Verdict.MISSING, losses=LOST)],
    [row(1_200_000, LOG, 5, delay=DELAY), row(1_200_000, BILLING, 5, repeated=3)],
]


@pytest.fixture
def archive() -> Archive:
    archive = Archive("orders")
    for number, rows in enumerate(ROWS):
        archive.add(Bucket(rows[0].bucket, part=number), rows)
    return archive


def test_what_was_judged_comes_back_as_it_was(archive: Archive) -> None:
    restored = Archive.decode("orders", archive.encode())
    assert [list(restored.rows_at(position)) for position in range(3)] == ROWS
    assert (list(restored.starts), list(restored.parts)) == ([0, 600_000, 1_200_000], [0, 1, 2])


def test_columns_are_summed_without_rows(archive: Archive) -> None:
    assert sum(archive.tiers[LOG].counts) == 205
    assert archive.tiers[BILLING].total("missing") == 10


def test_a_bucket_comes_back_as_numbers(archive: Archive) -> None:
    assert {tier: count.count for tier, count in archive.bucket_at(1).tiers.items()} == {LOG: 100, BILLING: 90}


@pytest.mark.parametrize("data", [b"", b"\0\0\0\5{}", b"\0\0\0\2{}", b"\xff" * 40])
def test_bytes_that_are_no_archive_are_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".{5}"):
        Archive.decode("orders", data)


def test_an_archive_that_was_cut_off_is_a_value_error(archive: Archive) -> None:
    with pytest.raises(ValueError, match="are not 3 buckets of 2 tiers"):
        Archive.decode("orders", archive.encode()[:-1])


@pytest.mark.parametrize(
    "starts",
    [[], [-2], [600_000], [0, 600_000, 1_200_000], [1_200_000, 0], [0, 600_000, 600_000], [0, 600_000, 1_800_000], [-2, 2**62]],
)
@pytest.mark.parametrize("number", [0, 255, 256, 65_536, 2**32, 2**62])
def test_any_starts_and_numbers_come_back(starts: list[int], number: int) -> None:
    archive = Archive("orders")
    for part, start in enumerate(starts):
        archive.add(Bucket(start, part=part + number), [row(start, LOG, number // 10 + part)])
    restored = Archive.decode("orders", archive.encode())
    assert (list(restored.starts), list(restored.parts)) == (starts, [part + number for part in range(len(starts))])
    assert list(restored.rows()) == list(archive.rows())
    assert restored.encode() == archive.encode()
    assert all(restored.has(start, part + number) for part, start in enumerate(starts))


def test_a_day_of_an_ordinary_topic_is_small() -> None:
    archive = Archive("orders")
    for number in range(144):
        archive.add(Bucket(number * 600_000, part=1_000 + number), [row(number * 600_000, tier, 50_000) for tier in (LOG, BILLING)])
    assert len(archive.encode()) < 144 * 20


def test_sums_that_no_64_bits_hold_are_the_highest_number() -> None:
    archive = Archive("orders")
    archive.add(Bucket(0), [row(0, LOG, 2**64)])
    assert list(Archive.decode("orders", archive.encode()).tiers[LOG].counts) == [2**63 - 1]


@pytest.mark.parametrize(
    "wrong", [{"missing": []}, {"expected": "5"}, {"delay": [1, 2, 3, "x"]}, {"delay": [1]}, {"losses": [{"before": "x"}]}, {"losses": [7]}]
)
def test_fields_that_make_no_sense_are_found_when_an_archive_is_read(archive: Archive, wrong: dict[str, Any]) -> None:
    Archive.decode("orders", archive.encode())
    archive.tiers[BILLING].seldom[1].update(wrong)
    with pytest.raises((ValueError, KeyError, TypeError)):
        Archive.decode("orders", archive.encode())


def test_a_verdict_that_is_none_is_a_value_error() -> None:
    archive = Archive("orders")
    archive.add(Bucket(0), [row(0, LOG, 5)])
    with pytest.raises(ValueError, match=r"a verdict is one of \[0, 1, 2, 3, 4, 5, 255\], and not 77"):
        Archive.decode("orders", archive.encode()[:-1] + bytes([77]))
