"""The columns of JSON, as the first messages show them."""

import pyarrow as pa
import pytest

from millstream.errors import UsageError
from millstream.tables.detection import infer_struct


def test_members_get_the_types_that_were_seen() -> None:
    sample = [
        b'{"page": "/", "n": 1, "share": 0.5, "is_new": true, "tags": ["a"], "user": {"id": 7}, "none": null}',
        b'{\n  "page": "/a",\n  "share": 1, "at": "2026-11-16T08:00:00Z"\n}',
    ]
    assert infer_struct(sample, name="value") == pa.struct(
        [
            ("page", pa.string()),
            ("n", pa.int64()),
            ("share", pa.float64()),
            ("is_new", pa.bool_()),
            ("tags", pa.list_(pa.string())),
            ("user", pa.struct([("id", pa.int64())])),
            ("none", pa.string()),
            ("at", pa.string()),
        ]
    )


@pytest.mark.parametrize("sample", [[b'{"a": 1}', b'{"a": "x"}'], [b"[1]"], [b'{"a": '], [b"x"]])
def test_what_has_no_columns_is_said_with_what_to_do(sample: list[bytes]) -> None:
    with pytest.raises(UsageError, match=r"cannot be inferred: .*; name the columns with value_schema"):
        infer_struct(sample, name="value")
