import pytest

from millstream.errors import InvalidConfig
from millstream.options.broker import BROKER_OPTIONS
from millstream.options.option import Option, OptionType, OptionValue, at_least, default_value, one_of, parse_value
from millstream.options.topic import TOPIC_OPTIONS

ALL_OPTIONS = [*TOPIC_OPTIONS.values(), *BROKER_OPTIONS.values()]


def option_of(option_type: OptionType) -> Option:
    return Option("some.option", option_type, None, "An option.")


@pytest.mark.parametrize(
    ("option_type", "text", "value"),
    [
        (OptionType.BOOLEAN, "true", True),
        (OptionType.BOOLEAN, "FALSE", False),
        (OptionType.INT, " 5 ", 5),
        (OptionType.INT, "+5", 5),
        (OptionType.INT, "-2147483648", -(2**31)),
        (OptionType.LONG, "9223372036854775807", 2**63 - 1),
        (OptionType.SHORT, "32767", 32767),
        (OptionType.DOUBLE, "0.5", 0.5),
        (OptionType.LIST, "compact, delete", ("compact", "delete")),
        (OptionType.LIST, "delete,delete", ("delete",)),
        (OptionType.LIST, "", ()),
        (OptionType.STRING, " producer ", "producer"),
    ],
)
def test_text_becomes_a_value_of_the_options_type(option_type: OptionType, text: str, value: OptionValue) -> None:
    parsed = parse_value(option_of(option_type), text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("option_type", "text"),
    [
        (OptionType.BOOLEAN, "yes"),
        (OptionType.BOOLEAN, ""),
        (OptionType.INT, "abc"),
        (OptionType.INT, ""),
        (OptionType.INT, "1_000"),
        (OptionType.INT, "٣"),
        (OptionType.INT, "0x10"),
        (OptionType.INT, "2147483648"),
        (OptionType.INT, "9" * 100_000),
        (OptionType.SHORT, "32768"),
        (OptionType.LONG, "9223372036854775808"),
        (OptionType.DOUBLE, "much"),
        (OptionType.DOUBLE, "nan"),
        (OptionType.LIST, "delete,"),
    ],
)
def test_text_of_another_type_is_refused_as_kafka_refuses_it(option_type: OptionType, text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"some\.option: it takes"):
        parse_value(option_of(option_type), text)


def test_a_refusal_names_the_option_the_value_and_what_is_allowed() -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse_value(TOPIC_OPTIONS["segment.bytes"], "1000")
    assert str(refused.value) == "invalid value '1000' for segment.bytes: it takes a number of at least 1048576"


def test_a_refusal_does_not_repeat_a_secret() -> None:
    secret = Option("secret", OptionType.PASSWORD, None, "A secret.", one_of("right"), is_sensitive=True)
    with pytest.raises(InvalidConfig) as refused:
        parse_value(secret, "hunter2")
    assert "hunter2" not in str(refused.value)


def test_a_fixed_option_takes_its_default_in_any_spelling_and_nothing_else() -> None:
    fixed = Option("a.fixed.option", OptionType.BOOLEAN, "false", "Without effect.", is_fixed=True)
    assert parse_value(fixed, "FALSE") is False
    with pytest.raises(InvalidConfig, match="not supported by Millstream: it takes only 'false'"):
        parse_value(fixed, "true")


def test_limits_hold_at_their_edges() -> None:
    option = Option("some.option", OptionType.INT, "1", "An option.", at_least(1))
    assert parse_value(option, "1") == 1
    with pytest.raises(InvalidConfig):
        parse_value(option, "0")


@pytest.mark.parametrize("option", ALL_OPTIONS, ids=lambda option: option.name)
def test_every_default_is_a_value_the_option_takes(option: Option) -> None:
    if option.default is not None:
        assert parse_value(option, option.default) == default_value(option)


@pytest.mark.parametrize("option", ALL_OPTIONS, ids=lambda option: option.name)
def test_every_option_is_documented_in_sentences(option: Option) -> None:
    assert option.documentation.endswith((".", ")."))
    assert option.documentation[0].isupper() or option.documentation.startswith("`")


@pytest.mark.parametrize("option", ALL_OPTIONS, ids=lambda option: option.name)
def test_every_option_says_in_words_what_it_takes(option: Option) -> None:
    assert option.allows


@pytest.mark.parametrize("option", TOPIC_OPTIONS.values(), ids=lambda option: option.name)
def test_every_synonym_of_a_topic_option_is_a_broker_option(option: Option) -> None:
    assert set(option.synonyms) <= set(BROKER_OPTIONS)


def test_a_topic_option_and_its_default_on_the_broker_are_fixed_together() -> None:
    for option in TOPIC_OPTIONS.values():
        for synonym in option.synonyms:
            assert BROKER_OPTIONS[synonym].is_fixed == option.is_fixed
