from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.errors import MalformedFrame
from millstream.wire.api import API_VERSIONS
from millstream.wire.frames import MAX_FRAME_BYTES, encode_request_header, read_request_header, read_response_header, read_size
from millstream.wire.primitives import read_tags, read_unsigned_varint, tagged_fields, unsigned_varint

client_ids = st.none() | st.text(max_size=20)


@settings(max_examples=200)
@given(data=st.data(), correlation_id=st.integers(-(2**31), 2**31 - 1), client_id=client_ids, body=st.binary(max_size=5))
def test_a_request_header_survives_the_journey(data: st.DataObject, correlation_id: int, client_id: str | None, body: bytes) -> None:
    api_key = data.draw(st.sampled_from(sorted(API_VERSIONS)))
    version = data.draw(st.integers(API_VERSIONS[api_key].lowest, API_VERSIONS[api_key].highest))
    header = encode_request_header(api_key, version, correlation_id=correlation_id, client_id=client_id)
    assert read_request_header(memoryview(header + body)) == (api_key, version, correlation_id, client_id, len(header))


@settings(max_examples=300)
@given(frame=st.binary(max_size=60))
def test_garbage_in_place_of_a_header_is_only_ever_malformed(frame: bytes) -> None:
    with suppress(MalformedFrame):
        assert read_request_header(frame).body_start <= len(frame)
    with suppress(MalformedFrame):
        assert read_response_header(frame, api_key=3, version=12)[1] <= len(frame)


@given(start=st.binary(min_size=4, max_size=4))
def test_four_bytes_are_a_size_within_the_limit_or_malformed(start: bytes) -> None:
    with suppress(MalformedFrame):
        assert 4 <= read_size(start) <= MAX_FRAME_BYTES


@given(value=st.integers(0, 2**35 - 1), before=st.binary(max_size=2))
def test_unsigned_varints_survive_the_journey(value: int, before: bytes) -> None:
    encoded = unsigned_varint(value)
    assert read_unsigned_varint(before + encoded, len(before)) == (value, len(before) + len(encoded))
    with pytest.raises(MalformedFrame):
        read_unsigned_varint(encoded[:-1], 0)


@given(tags=st.dictionaries(st.integers(0, 2**20), st.binary(max_size=5), max_size=4).map(lambda tags: sorted(tags.items())))
def test_tagged_fields_survive_the_journey(tags: list[tuple[int, bytes]]) -> None:
    encoded = tagged_fields(tags)
    found, end = read_tags(encoded, 0)
    assert end == len(encoded)
    assert [(tag, encoded[start:stop]) for tag, start, stop in found] == tags
