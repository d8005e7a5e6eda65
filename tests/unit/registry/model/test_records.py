"""The bytes of `_schemas`: those of Confluent's registry, read and written."""

import pytest

from millstream.registry.model.records import (
    CLAIM_KEY,
    Content,
    Key,
    LogRecord,
    Reference,
    StoredVersion,
    UnreadableRecord,
    config_key,
    decode_record,
    encode_key,
    encode_value,
    mode_key,
    schema_key,
    stored_version,
)
from millstream.registry.model.state import RegistryState, config_record

CONFLUENTS = [
    (schema_key("s", 2), b'{"keytype":"SCHEMA","subject":"s","version":2,"magic":1}'),
    (config_key("s"), b'{"keytype":"CONFIG","subject":"s","magic":0}'),
    (config_key(None), b'{"keytype":"CONFIG","magic":0}'),
    (mode_key("s"), b'{"keytype":"MODE","subject":"s","magic":0}'),
    (Key("DELETE_SUBJECT", "s"), b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}'),
    (Key("CLEAR_SUBJECT", "s"), b'{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}'),
    (Key("CONTEXT", context=".c"), b'{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}'),
    (CLAIM_KEY, b'{"keytype":"NOOP","magic":0}'),
]


@pytest.mark.parametrize(("key", "data"), CONFLUENTS, ids=lambda one: one.type if isinstance(one, Key) else "")
def test_keys_are_confluents(key: Key, data: bytes) -> None:
    assert encode_key(key) == data
    assert decode_record(data, None) == LogRecord(key, None)


def test_a_version_is_written_as_confluent_writes_it() -> None:
    content = Content('"int"', (Reference("X", "x", 3),))
    record = StoredVersion("s", 1, 7, content, content.guid).record()
    assert encode_value(record.value) == (
        b'{"subject":"s","version":1,"id":7,"references":[{"name":"X","subject":"x","version":3}],"schema":"\\"int\\"","deleted":false}'
    )
    assert stored_version(record.value or {}, subject="s", version=1) == StoredVersion("s", 1, 7, content, content.guid)


def test_records_of_other_versions_of_confluents_registry_are_read() -> None:
    state = RegistryState()
    old = (
        b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":0}',
        b'{"subject":"s","version":1,"id":1,"schema":"\\"int\\"","deleted":false}',
    )
    new = (
        b'{"keytype":"SCHEMA","subject":"s","version":2,"magic":1}',
        b'{"subject":"s","version":2,"id":2,"md5":"x","schemaType":"AVRO","references":[],"schema":"\\"long\\"","deleted":false,"ts":1}',
    )
    level = (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"NONE"}')
    for key, value in (old, new, level):
        assert state.apply(decode_record(key, value))
    assert [one.content.text for one in state.versions("s")] == ['"int"', '"long"']
    assert state.configs[None] == {"compatibilityLevel": "NONE"}


@pytest.mark.parametrize("key", [None, b"", b"{", b"[]", b"{}", b'{"keytype":1}', b'{"keytype":"SCHEMA","subject":1}', b"[" * 100_000])
def test_what_no_registry_wrote_is_refused(key: bytes | None) -> None:
    with pytest.raises(UnreadableRecord):
        decode_record(key, b"{}")
    with pytest.raises(UnreadableRecord):
        decode_record(encode_key(schema_key("s", 1)), b"[]")


def test_the_guid_is_the_md5_of_the_text_and_what_belongs_to_it() -> None:
    assert Content('"int"').guid == "ef524ea1-b91e-7317-3d93-8ade36c1db32"
    plain = Content("{}")
    others = [Content("{}", (Reference("X", "x", 1),)), Content("{}", metadata='{"properties":{"a":"b"}}'), Content("{}", rule_set="{}")]
    assert len({plain.guid, *(one.guid for one in others)}) == 4


def test_a_config_without_a_subject_is_global() -> None:
    assert config_record(None, {"compatibilityLevel": "FULL"}).value == {"compatibilityLevel": "FULL"}
    assert config_record("s", {"compatibilityLevel": "FULL"}).value == {"subject": "s", "compatibilityLevel": "FULL"}
