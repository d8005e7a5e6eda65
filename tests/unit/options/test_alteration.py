import pytest

from millstream.errors import InvalidConfig, InvalidRequest
from millstream.options.alteration import Alteration, AlterOperation, apply_incremental
from millstream.options.topic import TOPIC_OPTIONS


def alter(current: dict[str, str], *alterations: tuple[str, int, str | None], inherited: dict[str, str] | None = None) -> dict[str, str]:
    return apply_incremental(current, [Alteration(*one) for one in alterations], options=TOPIC_OPTIONS, inherited=inherited or {})


def test_setting_leaves_other_options_alone() -> None:
    assert alter({"retention.ms": "1", "flush.ms": "2"}, ("retention.ms", AlterOperation.SET, "5")) == {
        "retention.ms": "5",
        "flush.ms": "2",
    }


def test_deleting_goes_back_to_what_the_broker_gives() -> None:
    assert alter({"retention.ms": "1"}, ("retention.ms", AlterOperation.DELETE, None)) == {}


def test_deleting_what_is_not_set_or_not_known_changes_nothing() -> None:
    assert alter({}, ("retention.ms", AlterOperation.DELETE, None), ("no.such.option", AlterOperation.DELETE, None)) == {}


def test_appending_adds_to_a_list_once() -> None:
    both = {"cleanup.policy": "compact,delete"}
    assert alter({"cleanup.policy": "compact"}, ("cleanup.policy", AlterOperation.APPEND, "delete")) == both
    assert alter(both, ("cleanup.policy", AlterOperation.APPEND, "delete")) == both


def test_appending_to_an_unset_list_starts_from_the_value_that_holds() -> None:
    assert alter({}, ("cleanup.policy", AlterOperation.APPEND, "compact")) == {"cleanup.policy": "delete,compact"}
    inherited = {"cleanup.policy": "compact"}
    assert alter({}, ("cleanup.policy", AlterOperation.APPEND, "delete"), inherited=inherited) == {"cleanup.policy": "compact,delete"}


def test_subtracting_takes_from_a_list() -> None:
    assert alter({"cleanup.policy": "compact,delete"}, ("cleanup.policy", AlterOperation.SUBTRACT, "compact")) == {
        "cleanup.policy": "delete"
    }


@pytest.mark.parametrize("operation", [AlterOperation.APPEND, AlterOperation.SUBTRACT])
def test_only_lists_are_appended_to_and_subtracted_from(operation: AlterOperation) -> None:
    with pytest.raises(InvalidConfig, match=r"retention\.ms is not one"):
        alter({}, ("retention.ms", operation, "5"))


def test_nothing_can_be_added_to_an_unknown_option() -> None:
    with pytest.raises(InvalidConfig, match="unknown topic option"):
        alter({}, ("no.such.option", AlterOperation.APPEND, "5"))


def test_nothing_added_is_an_empty_element_where_the_list_has_others() -> None:
    assert alter({"cleanup.policy": "compact"}, ("cleanup.policy", AlterOperation.APPEND, ""))["cleanup.policy"] == "compact,"
    assert alter({"cleanup.policy": ""}, ("cleanup.policy", AlterOperation.APPEND, ""))["cleanup.policy"] == ""


def test_a_change_without_a_value_is_a_bad_request() -> None:
    with pytest.raises(InvalidRequest, match="needs a value"):
        alter({}, ("retention.ms", AlterOperation.SET, None))


def test_an_unknown_operation_is_a_bad_request() -> None:
    with pytest.raises(InvalidRequest, match="unknown operation 9"):
        alter({}, ("retention.ms", 9, "5"))


def test_one_option_is_changed_once_per_request() -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        alter({}, ("retention.ms", AlterOperation.SET, "5"), ("retention.ms", AlterOperation.DELETE, None))


def test_what_was_set_before_is_not_touched() -> None:
    current = {"retention.ms": "1"}
    alter(current, ("retention.ms", AlterOperation.SET, "5"))
    assert current == {"retention.ms": "1"}
