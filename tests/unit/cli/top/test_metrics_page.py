from millstream.cli.top.metrics_page import MetricsPage, fetch_page, parse_page, together
from millstream.topic_partition import TopicPartition

PAGE = r"""# HELP kafka_topic_partition_current_offset High watermark.
# TYPE kafka_topic_partition_current_offset gauge
kafka_topic_partition_current_offset{topic="clicks",partition="0"} 10
kafka_topic_partition_current_offset{topic="__consumer_offsets",partition="0"} 99
kafka_server_brokertopicmetrics_bytesin_total{topic="clicks"} 1000
kafka_server_brokertopicmetrics_bytesin_total{topic="a\"b\\c"} 1
kafka_server_brokertopicmetrics_bytesout_total{topic="clicks"} 2000
kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.5"} 1
kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.99"} 7.5
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"} NaN
kafka_network_requestmetrics_totaltimems_count{request="Fetch"} 40
kafka_server_socket_server_metrics_connection_count 3
kafka_server_something_else{topic="clicks"} 5
millstream_sample_age_seconds 4
"""


def test_the_page_is_read_as_far_as_it_is_needed() -> None:
    assert parse_page(PAGE, now=100.0) == MetricsPage(
        sampled_at=96.0,
        bytes_in={"clicks": 1000.0, 'a"b\\c': 1.0},
        bytes_out={"clicks": 2000.0},
        requests={"Fetch": 40.0},
        slowest_ms={"Fetch": 7.5},
        connections=3,
        ends={TopicPartition("clicks", 0): 10},
    )


def test_figures_of_several_brokers_are_added_and_times_are_the_longest() -> None:
    one, other = MetricsPage(5.0, {"a": 1.0}, {}, {"Fetch": 1.0}, {"Fetch": 2.0}, 1), MetricsPage(3.0, {"a": 2.0}, {"b": 1.0}, {}, {}, 2)
    assert together([one, other]) == MetricsPage(3.0, {"a": 3.0}, {"b": 1.0}, {"Fetch": 1.0}, {"Fetch": 2.0}, 3)
    assert together([]) is None


def test_a_page_of_another_cluster_is_recognised() -> None:
    page = parse_page(PAGE, now=0.0)
    assert page.is_about({TopicPartition("clicks", 0): 10, TopicPartition("other", 0): 1})
    assert not page.is_about({TopicPartition("clicks", 0): 9})
    assert not page.is_about({TopicPartition("other", 0): 1})


def test_where_no_page_is_there_is_none() -> None:
    assert fetch_page("http://127.0.0.1:1", now=0.0) is None
