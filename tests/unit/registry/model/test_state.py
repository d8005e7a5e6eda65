"""The state that records add up to: ids, references, deletes, and the two rules by which the order of the log decides."""

from typing import Any

from millstream.registry.model.records import Content, Key, LogRecord, StoredVersion, config_key, schema_key
from millstream.registry.model.state import Claim, RegistryState, claim_record, config_record, mode_record


def version(subject: str, number: int, schema_id: int, text: str = '"int"', **more: Any) -> LogRecord:
    content = Content(text, **more)
    return StoredVersion(subject, number, schema_id, content, content.guid).record()


def state_of(*records: LogRecord) -> RegistryState:
    state = RegistryState()
    for record in records:
        assert state.apply(record)
    return state


def claim(term: str) -> LogRecord:
    return claim_record(Claim(term, f"instance-{term}", f"http://{term}"), {})


def texts(state: RegistryState, subject: str) -> list[str]:
    return [one.content.text for one in state.versions(subject)]


def test_versions_are_found_by_subject_by_id_and_by_guid() -> None:
    state = state_of(version("a", 1, 1), version("b", 1, 1), version("a", 2, 2, '"long"'))
    assert texts(state, "a") == ['"int"', '"long"']
    assert [(one.subject, one.version) for one in state.versions_with_id(".", 1)] == [("a", 1), ("b", 1)]
    assert state.id_of(".", Content('"long"').guid) == 2
    assert state.next_id(".") == 3


def test_contexts_count_their_ids_apart() -> None:
    state = state_of(version("a", 1, 5), version(":.c:a", 1, 1, '"long"'))
    assert (state.next_id("."), state.next_id(".c"), state.contexts) == (6, 2, [".", ".c"])
    assert [one.subject for one in state.versions_with_id(".c", 1)] == [":.c:a"]


def test_a_soft_delete_hides_and_a_tombstone_removes() -> None:
    deleted = StoredVersion("a", 1, 1, Content('"int"'), Content('"int"').guid, is_deleted=True).record()
    state = state_of(version("a", 1, 1), deleted)
    assert (state.versions("a"), len(state.versions("a", include_deleted=True))) == ([], 1)
    assert state.versions_with_id(".", 1)
    state.apply(LogRecord(schema_key("a", 1), None))
    assert (state.subjects, state.versions_with_id(".", 1), state.id_of(".", Content('"int"').guid)) == ({}, [], None)
    assert state.next_id(".") == 2


def test_deleting_a_subject_deletes_the_versions_up_to_a_number() -> None:
    state = state_of(
        version("a", 1, 1), version("a", 2, 2, '"long"'), LogRecord(Key("DELETE_SUBJECT", "a"), {"subject": "a", "version": 1})
    )
    assert texts(state, "a") == ['"long"']


def test_referrers_are_known_and_forgotten() -> None:
    from millstream.registry.model.records import Reference

    referring = version("b", 1, 2, '"x"', references=(Reference("X", "a", 1),))
    state = state_of(version("a", 1, 1), referring)
    assert [one.subject for one in state.referrers("a", 1, include_deleted=False)] == ["b"]
    state.apply(LogRecord(schema_key("b", 1), None))
    assert state.referrers("a", 1, include_deleted=True) == []


def test_a_reference_without_a_context_is_one_of_the_same_context() -> None:
    from millstream.registry.model.records import Reference

    state = state_of(version(":.c:b", 1, 2, '"x"', references=(Reference("X", "a", 1),)))
    assert state.referrers("a", 1, include_deleted=True) == []
    assert len(state.referrers(":.c:a", 1, include_deleted=True)) == 1


def test_configs_and_modes_are_set_and_removed() -> None:
    state = state_of(
        config_record(None, {"compatibilityLevel": "FULL"}), config_record("a", {"normalize": True}), mode_record("a", "IMPORT")
    )
    assert (state.configs, state.modes) == ({None: {"compatibilityLevel": "FULL"}, "a": {"normalize": True}}, {"a": "IMPORT"})
    state.apply(LogRecord(config_key("a"), None))
    state.apply(mode_record("a", None))
    assert (list(state.configs), state.modes) == ([None], {})


def test_a_record_of_a_deposed_writer_is_ignored_by_everybody() -> None:
    state = state_of(claim("one"), claim("two"))
    assert not state.apply(version("a", 1, 1), term="one")
    assert state.apply(version("b", 1, 1, '"long"'), term="two")
    assert list(state.subjects) == ["b"]


def test_a_record_without_a_term_is_taken() -> None:
    state = state_of(claim("one"))
    assert state.apply(version("a", 1, 1), term=None)


def test_records_of_a_term_whose_claim_was_compacted_away_are_taken() -> None:
    state = RegistryState()
    assert state.apply(version("a", 1, 1), term="one")
    assert state.apply(claim("two"))
    assert not state.apply(version("a", 2, 2, '"long"'), term="one")


def test_an_id_never_comes_to_stand_for_another_schema() -> None:
    state = state_of(version("a", 1, 1))
    assert not state.apply(version("b", 1, 1, '"long"'))
    assert list(state.subjects) == ["a"]


def test_what_was_ignored_is_corrected_by_the_true_value() -> None:
    state = state_of(claim("one"), version("a", 1, 1), config_record("a", {"normalize": True}), claim("two"))
    for record in (version("a", 1, 9, '"long"'), version("b", 1, 8), config_record("a", {"normalize": False}), mode_record(None, "IMPORT")):
        assert not state.apply(record, term="one")
    corrections = state.corrections()
    compacted = state_of(*corrections)
    assert texts(compacted, "a") == ['"int"']
    assert (compacted.configs, compacted.modes, list(compacted.subjects)) == ({"a": {"normalize": True}}, {}, ["a"])
    for record in corrections:
        assert state.apply(record, term="two")
    assert state.corrections() == []


def test_the_highest_ids_survive_in_claims() -> None:
    first = state_of(version("a", 1, 7), version(":.c:a", 1, 3))
    renewed = claim_record(Claim("t", "i", "u"), first.highest_ids())
    assert (state_of(renewed).next_id("."), state_of(renewed).next_id(".c")) == (8, 4)


def test_a_noop_of_another_registry_is_no_claim() -> None:
    assert state_of(LogRecord(Key("NOOP"), None), LogRecord(Key("NOOP"), {"x": 1})).claim is None


def test_clearing_forgets_what_is_left_of_a_subject_or_of_a_context() -> None:
    state = state_of(version("a", 1, 1), version("b", 1, 2, '"long"'), version(":.c:a", 1, 1))
    state.apply(LogRecord(Key("CLEAR_SUBJECT", "a"), {"subject": "a"}))
    assert sorted(state.subjects) == [":.c:a", "b"]
    state.apply(LogRecord(Key("CLEAR_SUBJECT", ":.c:"), {"subject": ":.c:"}))
    assert sorted(state.subjects) == ["b"]
