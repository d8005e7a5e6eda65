import timeit
from pathlib import Path
from uuid import UUID

import pytest

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.server_options import ServerOptions
from millstream.coordination.cluster_view import DEFAULT_BROKER, ClusterView, TopicState


def topic(**configs: str) -> TopicState:
    return TopicState("orders", UUID(int=1), (), {name.replace("_", "."): value for name, value in configs.items()})


def view(**configs: dict[str, str]) -> ClusterView:
    return ClusterView(broker_configs={DEFAULT_BROKER if name == "all" else name.strip("_"): values for name, values in configs.items()})


def test_what_is_set_while_the_broker_runs_holds_for_its_topics_at_once() -> None:
    settings = LiveSettings({"log.retention.ms": "1000"}, node_id=1)
    assert settings.log_config(topic()).retention_ms == 1000
    settings.apply(view(all={"log.retention.ms": "2000"}))
    assert settings.log_config(topic()).retention_ms == 2000
    settings.apply(view(all={"log.retention.ms": "2000"}, _1={"log.retention.ms": "3000"}, _2={"log.retention.ms": "4000"}))
    assert settings.log_config(topic()).retention_ms == 3000
    assert settings.log_config(topic(retention_ms="5")).retention_ms == 5
    settings.apply(view())
    assert settings.log_config(topic()).retention_ms == 1000


def test_who_the_broker_is_and_where_it_listens_stays_known_when_options_change() -> None:
    options = ServerOptions(node_id=7, data=(Path("/a,,b"), Path("c")))
    settings = LiveSettings({"num.partitions": "3"}, node_id=7)
    settings.know(options.facts(listen=("::", 9092), advertise=("broker1.example", 9093)))
    settings.apply(view(_7={"log.retention.ms": "3000"}))
    current = settings.current
    assert (current.integer("num.partitions"), current.integer("node.id"), current.integer("broker.id")) == (3, 7, 7)
    assert current.elements("listeners") == ("PLAINTEXT://[::]:9092",)
    assert current.elements("advertised.listeners") == ("PLAINTEXT://broker1.example:9093",)
    assert current.elements("log.dirs") == ("/a%2C%2Cb", "c")
    assert settings.log_config(topic()).retention_ms == 3000


def test_a_view_without_news_changes_nothing() -> None:
    settings = LiveSettings({}, node_id=1)
    before = settings.current
    settings.apply(view())
    assert settings.current is before


def test_options_that_an_older_version_took_do_not_end_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    settings = LiveSettings({}, node_id=1)
    settings.apply(view(all={"no.such.option": "1"}))
    assert settings.current.dynamic_default == {}
    assert settings.log_config(topic(retention_ms="soon")) == settings.log_config(topic())
    assert "no.such.option" in caplog.text
    assert "topic orders" in caplog.text


def test_topics_with_the_same_options_share_their_config() -> None:
    settings = LiveSettings({}, node_id=1)
    assert settings.log_config(topic(retention_ms="5")) is settings.log_config(topic(retention_ms="5"))
    # It is asked for every topic with every change of the cluster: a thousand of them may not hold up the loop.
    assert timeit.timeit(lambda: settings.log_config(topic()), number=1000) < 0.1
