import pytest

from millstream.json_object import JsonObject


def parsed(text: str) -> JsonObject:
    return JsonObject.parse(text.encode())


@pytest.mark.parametrize("text", ['"1"', "1.0", "true", "null", "[1]", "-1", "2147483648", "1e3", "9" * 4000])
def test_what_is_no_whole_number_in_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="n must be a whole number from 0 to 2147483647, and is "):
        parsed(f'{{"n": {text}}}').integer("n")


@pytest.mark.parametrize("text", ["1", "null", '["a"]', '"\\ud800"', '"' + "x" * 32_768 + '"'])
def test_what_cannot_be_sent_as_a_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="t must be a text"):
        parsed(f'{{"t": {text}}}').text("t")


@pytest.mark.parametrize("text", ["", "[]", "1", "null", "{", "\x00", "[" * 100_000, '{"a": ' * 100_000, "9" * 10_000])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parsed(text)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"a": "\xff\xfe"}', r"must be JSON in UTF-8, and begins with "),
        (b"\xff\x00hello", r"must be JSON in UTF-8, and begins with "),
        (b"hello", r"must be JSON, and begins with b'hello': "),
    ],
)
def test_bytes_that_are_no_text_or_no_json_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        JsonObject.parse(data)


def test_the_error_names_the_place() -> None:
    with pytest.raises(ValueError, match=r"partitions\[1\]\.leader must be"):
        [one.integer("leader") for one in parsed('{"partitions": [{"leader": 1}, {"leader": "1"}]}').objects("partitions")]
    with pytest.raises(ValueError, match=r"partitions\[0\] must be a JSON object, and is 3"):
        parsed('{"partitions": [3]}').objects("partitions")
    with pytest.raises(ValueError, match="leader is missing"):
        parsed("{}").integer("leader")
    with pytest.raises(ValueError, match="'a' in configs must be a text, and is 1"):
        parsed('{"configs": {"a": 1}}').texts("configs")
    with pytest.raises(ValueError, match="replicas names a number twice"):
        parsed('{"replicas": [1, 1]}').integers("replicas")


def test_what_is_right_comes_out() -> None:
    fields = parsed('{"n": 7, "t": "text", "none": null, "s": {"a": "b"}, "l": [3, 1], "o": [{"n": 1}]}')
    assert (fields.integer("n"), fields.text("t"), fields.optional_text("none"), fields.optional_text("t")) == (7, "text", None, "text")
    assert (fields.texts("s"), fields.integers("l"), [one.integer("n") for one in fields.objects("o")]) == ({"a": "b"}, (3, 1), [1])
    assert parsed('{"a": "b"}').all_texts() == {"a": "b"}


def test_what_may_be_null_and_what_is_true_or_false() -> None:
    fields = parsed('{"none": null, "n": 7, "yes": true, "o": {"n": "x"}, "l": [1]}')
    assert (fields.optional_integer("none"), fields.optional_integer("n"), fields.boolean("yes")) == (None, 7, True)
    assert (fields.optional_object("none"), fields.optional_items("none"), fields.optional_items("l")) == (None, None, [1])
    with pytest.raises(ValueError, match="n must be true or false, and is 7"):
        fields.boolean("n")
    inner = fields.optional_object("o")
    assert inner is not None
    with pytest.raises(ValueError, match=r"o\.n must be a whole number"):
        inner.integer("n")
