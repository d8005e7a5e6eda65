"""Sentences about a job file are given the line that they are about."""

import pytest

from millstream.spark.jobs.description.setting_line import line_of

DOCUMENT = """\
name = "views"
brokers = "127.0.0.1:9092"

[input]
topic = "page-views"   # name = "not here"
max-per-batch = 7

[input.columns]
"is_home" = "page = '/'"

[ measures ]
views = "count"
topic = "top(3, topic)"
"""


@pytest.mark.parametrize(
    ("sentence", "line"),
    [
        ("name: 'x y' cannot be a job's", 1),
        ("a job has no setting 'brokers'. Did you mean ...", 2),
        ("[input] topic: 'a b' cannot be the name of a topic", 5),
        ("input.max-per-batch: True is not a whole number", 6),
        ("[input] max_per_batch: -1 is not a number of messages", 6),
        ("[input] has no setting 'topic'", 5),
        ("[input.columns] is_home: it is no expression", 9),
        ("[measures] views: there is no measure 'cnt'", 12),
        ("[measures] topic: 'x' is no measure", 13),
        ("[measures]: nothing is measured: add a line", 11),
        ("[input] time: it is missing", 4),
        ("there is no section [input.columns]", 8),
        ("[input] results need a topic or a table: add one", 4),
        ("the section [output] is missing", None),
        ("checkpoint: it is missing", None),
    ],
)
def test_a_sentence_has_the_line_of_its_setting(sentence: str, line: int | None) -> None:
    assert line_of(DOCUMENT, sentence) == line
