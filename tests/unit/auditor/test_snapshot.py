from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import ANY_BUCKET, Count, Kind, Origin, ReadRange
from millstream.audit.verdict import Verdict, judge
from millstream.auditor.snapshot import Snapshot
from millstream.auditor.state_log import PartitionState
from tests.unit.audit.some_reports import BUCKET_MS, origin, report

ALL = OffsetSet((0, 100))
NOW = 100 * BUCKET_MS


def state_of(*counted: tuple[Origin, Count]) -> PartitionState:
    state = PartitionState(BUCKET_MS)
    for by, count in counted:
        read = (ReadRange(0, 0, 100),) if by.kind is Kind.BROKER else ()
        state.ledger("orders").apply(
            report(count, by=by, sent_ms=NOW, is_last=True, progress_ms=NOW, read=read), offset=state.position, arrived_ms=NOW
        )
        state.position += 1
    state.changed("orders")
    state.written()
    return state


def test_a_bucket_that_one_of_two_clusters_has_finished_is_not_missing_there() -> None:
    mirror = origin("copy", Kind.MIRROR)._replace(target="offline")
    live = state_of(
        (origin(), Count(0, 100)),
        (origin("broker", Kind.BROKER), Count(0, 100, partition=0, offsets=ALL)),
        (mirror, Count(ANY_BUCKET, 100, partition=0, offsets=ALL)),
    )
    offline = state_of((origin("broker", Kind.BROKER, "offline"), Count(0, 100, partition=0, offsets=ALL)))
    offline.finish("orders", 0, list(judge(offline.ledger("orders"), now_ms=NOW)))
    snapshot = Snapshot(BUCKET_MS)
    snapshot.add(live)
    snapshot.add(offline)
    snapshot.join_archives()
    rows = list(judge(snapshot.ledger("orders"), now_ms=NOW))
    assert [(row.tier.name, row.tier.cluster, row.count, row.verdict) for row in rows] == [
        ("web", "live", 100, Verdict.COMPLETE),
        ("broker", "live", 100, Verdict.COMPLETE),
        ("copy", "live", 100, Verdict.COMPLETE),
        ("broker", "offline", 100, Verdict.COMPLETE),
    ]
