from millstream.monitoring.exposition import family, labels


def test_family_has_help_type_and_a_line_per_series() -> None:
    text = family("lag", "gauge", "How far behind.", [(labels(topic="a", partition=0), 3), (labels(topic="b", partition=1), 0.25)])
    assert text == '# HELP lag How far behind.\n# TYPE lag gauge\nlag{topic="a",partition="0"} 3\nlag{topic="b",partition="1"} 0.25\n'


def test_family_without_series_is_not_there() -> None:
    assert family("lag", "gauge", "How far behind.", []) == ""


def test_large_numbers_keep_all_their_digits() -> None:
    assert family("n", "counter", "N.", [("", 2**53 + 1), ("_sum", 1794821331.125)]).splitlines()[2:] == [
        "n 9007199254740993",
        "n_sum 1794821331.125",
    ]


def test_whatever_a_group_is_called_its_label_is_one_value() -> None:
    assert labels(group='a"b\\c\nd') == '{group="a\\"b\\\\c\\nd"}'
