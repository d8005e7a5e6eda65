from dataclasses import replace

from millstream.audit.summary import TierTotal, TopicSummary
from millstream.audit.verdict import Verdict
from millstream.cli.audit.output import row_document, sentence
from millstream.cli.audit.page import audit_page
from tests.unit.audit.test_archive import BILLING, LOST, row

MISSING = row(600_000, BILLING, 90, expected=100, missing=10, verdict=Verdict.MISSING, losses=LOST)


def summary(topic: str) -> TopicSummary:
    total = TierTotal()
    total.add(MISSING)
    return TopicSummary(topic, {BILLING: total}, {600_000: 5}, [([0, 1_200_000], b"\0\1")], [MISSING])


def test_the_map_has_a_letter_for_each_bucket() -> None:
    other = TopicSummary("payments", {}, {1_800_000: 0})
    page = audit_page([summary("orders"), other], made="today")
    assert '"cells":["afb.","...a"]' in page
    assert '"buckets":["1970-01-01T00:00:00Z","1970-01-01T00:10:00Z","1970-01-01T00:20:00Z","1970-01-01T00:30:00Z"]' in page
    assert "missing 10 after broker, partition 0, offsets 40-49" in page


def test_buckets_that_were_finished_out_of_order_are_where_they_belong() -> None:
    mixed = TopicSummary("orders", {}, {}, [([0, 1_200_000, 600_000, 1_800_000], b"\0\1\2\3")])
    assert '"cells":["acbd"]' in audit_page([mixed], made="today")


def test_names_of_topics_and_tiers_cannot_become_part_of_the_page() -> None:
    page = audit_page([summary("</script><b>evil")], made="today")
    assert "<b>evil" not in page


def test_a_row_as_json_has_what_others_rely_on() -> None:
    document = row_document(MISSING)
    assert {name: document[name] for name in ("topic", "bucket", "tier", "count", "missing", "surplus", "verdict")} == {
        "topic": "orders",
        "bucket": "1970-01-01T00:10:00Z",
        "tier": "billing",
        "count": 90,
        "missing": 10,
        "surplus": 0,
        "verdict": "missing",
    }
    assert row_document(replace(MISSING, bucket=-2))["bucket"] is None


def test_what_is_unknown_is_said_to_be_so() -> None:
    assert "a producer was killed" in sentence(replace(MISSING, verdict=Verdict.UNKNOWN, losses=(), surpluses=LOST))
