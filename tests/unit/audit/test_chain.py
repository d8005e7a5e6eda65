from millstream.audit.chain import Chain
from millstream.audit.reports.report import Kind
from millstream.audit.topic_head import Tier

WEB = Tier("web", Kind.PRODUCER, "live")
APP = Tier("app", Kind.PRODUCER, "live")
LIVE = Tier("broker", Kind.BROKER, "live")
COPY = Tier("copy", Kind.MIRROR, "live", "offline")
OFFLINE = Tier("broker", Kind.BROKER, "offline")
ONLINE_READER = Tier("billing", Kind.CONSUMER, "live")
OFFLINE_READER = Tier("lake", Kind.LOAD, "offline")
ALL = Chain([OFFLINE_READER, ONLINE_READER, OFFLINE, COPY, LIVE, APP, WEB])


def test_each_tier_is_fed_by_the_one_before() -> None:
    assert ALL.feeding(WEB) == []
    assert ALL.feeding(LIVE) == [APP, WEB]
    assert ALL.feeding(COPY) == [LIVE]
    assert ALL.feeding(OFFLINE) == [COPY]
    assert (ALL.feeding(ONLINE_READER), ALL.feeding(OFFLINE_READER)) == ([LIVE], [OFFLINE])


def test_the_order_is_the_way_of_a_message() -> None:
    assert ALL.in_order() == [APP, WEB, LIVE, COPY, OFFLINE, ONLINE_READER, OFFLINE_READER]


def test_without_a_broker_readers_are_fed_by_producers_and_mirrors() -> None:
    chain = Chain([WEB, COPY, ONLINE_READER, OFFLINE_READER])
    assert (chain.feeding(ONLINE_READER), chain.feeding(OFFLINE_READER), chain.feeding(COPY)) == ([WEB], [COPY], [WEB])


def test_who_does_not_know_its_cluster_is_of_the_one_that_no_mirror_writes_to() -> None:
    stranger, reader = Tier("x", Kind.PRODUCER, ""), Tier("y", Kind.CONSUMER, "")
    chain = Chain([stranger, reader, LIVE, COPY, OFFLINE])
    assert (chain.feeding(LIVE), chain.feeding(OFFLINE), chain.feeding(reader)) == ([stranger], [COPY], [LIVE])


def test_a_mirror_that_does_not_say_where_it_writes_to_writes_to_the_other_cluster() -> None:
    copy = Tier("copy", Kind.MIRROR, "live")
    assert Chain([LIVE, OFFLINE, copy]).target_of(copy) == OFFLINE
