from millstream.cli.top.metrics_page import MetricsPage
from millstream.cli.top.rates import MetricsRates


def test_rates_are_between_two_samples_not_between_two_looks() -> None:
    rates = MetricsRates()
    rates.note(MetricsPage(10.0, {"a": 100.0}))
    assert rates.bytes_in == {}
    rates.note(MetricsPage(10.1, {"a": 100.0}))  # the same sample, seen again
    rates.note(MetricsPage(20.0, {"a": 300.0, "new": 50.0}))
    assert rates.bytes_in == {"a": 20.0, "new": 5.0}
    rates.note(MetricsPage(20.0, {"a": 300.0, "new": 50.0}))
    assert rates.bytes_in == {"a": 20.0, "new": 5.0}


def test_a_broker_that_was_restarted_has_no_negative_rate() -> None:
    rates = MetricsRates()
    rates.note(MetricsPage(10.0, requests={"Fetch": 100.0}))
    rates.note(MetricsPage(20.0, requests={"Fetch": 3.0}))
    assert rates.requests == {"Fetch": 0.0}


def test_a_page_that_is_gone_is_forgotten() -> None:
    rates = MetricsRates()
    rates.note(MetricsPage(10.0, bytes_out={"a": 1.0}))
    rates.note(None)
    assert rates.page is None
    rates.note(MetricsPage(30.0, bytes_out={"a": 9.0}))
    assert rates.bytes_out == {}
