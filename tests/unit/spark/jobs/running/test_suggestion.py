from millstream.spark.jobs.running.suggestion import did_you_mean


def test_the_nearest_name_is_suggested_whatever_its_case() -> None:
    assert did_you_mean("WATERMRK", ["watermark", "where"]) == " Did you mean 'watermark'?"


def test_nothing_is_suggested_where_nothing_is_near() -> None:
    assert did_you_mean("colour", ["watermark", "where"]) == ""
