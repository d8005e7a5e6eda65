from millstream.log.config import LogConfig


def test_options_are_taken_by_kafkas_names() -> None:
    config = LogConfig.of({"segment.bytes": 1024, "message.timestamp.type": "LogAppendTime", "max.message.bytes": 99})
    assert (config.segment_bytes, config.message_timestamp_type, config.max_message_bytes) == (1024, "LogAppendTime", 99)
    assert config.is_log_append_time


def test_what_is_not_given_has_kafkas_default() -> None:
    config = LogConfig.of({})
    assert (config.segment_bytes, config.retention_ms, config.index_interval_bytes) == (1 << 30, 604_800_000, 4096)
    assert config.message_timestamp_after_max_ms == 3_600_000


def test_options_that_are_not_about_logs_are_left_alone() -> None:
    assert LogConfig.of({"listeners": "x", "follower.replication.throttled.replicas": ""}) == LogConfig()


def test_cleanup_policy_is_a_set_however_it_is_written() -> None:
    for written in ("compact, delete", ["compact", "delete"], frozenset({"delete", "compact"})):
        config = LogConfig.of({"cleanup.policy": written})
        assert config.cleanup_policy == {"compact", "delete"}
        assert config.is_compacted
        assert config.is_deleted
