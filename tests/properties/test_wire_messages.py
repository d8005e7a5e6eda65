from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.errors import MalformedFrame
from millstream.wire import messages
from millstream.wire.api import API_VERSIONS, ApiKey
from millstream.wire.message_reader import Budget, message_reader
from millstream.wire.message_writer import message_writer
from millstream.wire.primitives import tagged_fields
from tests.properties.kio_entities import entities, every_schema, kio_bytes, kio_read, plain_message

ELEMENTS = 10_000
UNKNOWN_TAGS = (5_000, 70_000)


@pytest.mark.parametrize("api_key", API_VERSIONS, ids=lambda key: ApiKey(key).name)
@settings(max_examples=8)
@given(data=st.data())
def test_every_message_is_written_and_read_as_kio_does(api_key: int, data: st.DataObject) -> None:
    schema, kio = data.draw(st.sampled_from(every_schema(api_key)))
    entity = data.draw(entities(kio))
    body = kio_bytes(entity)
    plain = plain_message(schema, kio, entity)
    assert message_writer(schema)(plain) == body
    assert message_reader(schema)(memoryview(body), 0, Budget(ELEMENTS)) == (plain, len(body))
    assert kio_read(kio, body) == entity


@pytest.mark.parametrize("api_key", API_VERSIONS, ids=lambda key: ApiKey(key).name)
@settings(max_examples=4)
@given(data=st.data())
def test_unknown_tagged_fields_of_a_message_are_skipped(api_key: int, data: st.DataObject) -> None:
    flexible = [(schema, kio) for schema, kio in every_schema(api_key) if schema.is_flexible]
    if not flexible:
        return
    schema, kio = data.draw(st.sampled_from(flexible))
    without_known_tags = entities(kio).map(
        lambda entity: type(entity)(
            **{field.name: field.default if field.tag is not None else getattr(entity, field.name) for field in kio.fields}
        )
    )
    entity = data.draw(without_known_tags)
    body = kio_bytes(entity)
    assert body[-1] == 0
    unknown = tagged_fields([(tag, data.draw(st.binary(max_size=5))) for tag in UNKNOWN_TAGS])
    assert message_reader(schema)(memoryview(body[:-1] + unknown), 0, Budget(ELEMENTS))[0] == plain_message(schema, kio, entity)


@pytest.mark.parametrize("api_key", API_VERSIONS, ids=lambda key: ApiKey(key).name)
@settings(max_examples=12)
@given(data=st.data())
def test_garbage_in_place_of_a_request_is_only_ever_malformed(api_key: int, data: st.DataObject) -> None:
    versions = API_VERSIONS[api_key]
    version = data.draw(st.integers(versions.lowest, versions.highest))
    with suppress(MalformedFrame):
        messages.decode_request(api_key, version, body=data.draw(st.binary(max_size=60)))


@settings(max_examples=200)
@given(data=st.data())
def test_a_damaged_request_is_read_or_malformed(data: st.DataObject) -> None:
    api_key = data.draw(st.sampled_from([ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.JOIN_GROUP, ApiKey.FETCH, ApiKey.PRODUCE]))
    schema, kio = data.draw(st.sampled_from(every_schema(api_key)[::2]))
    damaged = bytearray(kio_bytes(data.draw(entities(kio))))
    for _ in range(data.draw(st.integers(1, 3))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    with suppress(MalformedFrame):
        message_reader(schema)(memoryview(damaged)[:cut], 0, Budget(ELEMENTS))
