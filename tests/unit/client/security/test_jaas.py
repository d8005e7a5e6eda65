import pytest

from millstream.client.security.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_line_names_a_module_and_its_options() -> None:
    module = parse_jaas(f'{PLAIN} required username="alice"\n  password="a \\"quoted\\" word\\\\";')
    assert module.name == "PlainLoginModule"
    assert module.options == {"username": "alice", "password": 'a "quoted" word\\'}


def test_values_may_have_single_quotes_or_none() -> None:
    assert parse_jaas("a.B Required one='it is' two=2;").options == {"one": "it is", "two": "2"}
    assert parse_jaas("a.B required ;").options == {}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "begin with a login module"),
        (f"{PLAIN} username=secret;", "begin with a login module"),
        (f'{PLAIN} required username="x" password="secret"', "end with a semicolon after the option 'password'"),
        (f'{PLAIN} required password="secret', "end with a semicolon"),
        (f"{PLAIN} required password=secret; and more", "end with a semicolon after the option 'password'"),
    ],
)
def test_what_cannot_be_read_is_said_without_the_text(line: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as raised:
        parse_jaas(line)
    assert "secret" not in str(raised.value)
