import pytest

from millstream.errors import InvalidRegularExpression
from millstream.groups.consumer.topic_patterns import MatchingBudget, TopicPattern, TopicScan

LONGEST_NAME = "ab" * 124 + "a"


@pytest.mark.parametrize(
    ("expression", "name", "matches"),
    [
        ("orders", "orders", True),
        ("orders", "orders-eu", False),
        ("orders.*", "my-orders", False),
        ("(?i)ORDERS", "orders", True),
        (r"[a-z]+\.\d{2}", "topic.42", True),
        ("a|b", "ab", False),
        ("^a$", "a", True),
        (r"\Qa.b\E", "a.b", True),
        ("[[:alpha:]]+", "abc", True),
        ("(?P<name>a+)", "aaa", True),
        ("", "a", False),
    ],
)
def test_syntax_is_re2s(expression: str, name: str, *, matches: bool) -> None:
    assert TopicPattern(expression).matches(name) is matches


@pytest.mark.parametrize(
    "expression", [r"(a)\1", "a(?=b)", "a(?!b)", "(?<=a)b", "(?>a)", "a**", "(", ")", "[", "a{1001}", r"\pX", "(a?){1000}"]
)
def test_what_re2_refuses_and_what_is_too_complex_is_refused(expression: str) -> None:
    with pytest.raises(InvalidRegularExpression, match="SubscribedTopicRegex"):
        TopicPattern(expression)


@pytest.mark.parametrize("expression", ["a" * 40_000, "\ud800", "a" * 5_000, "\\pL{200}" * 50])
def test_giant_and_broken_expressions_are_refused(expression: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        TopicPattern(expression)


@pytest.mark.parametrize(
    "expression", ["(x+x+)+y", "(a|aa)+$", "(a*)*b", "([ab]?){200}x", "(a|b)*a(a|b){200}", "(.*a.{20}){5}", "(a?b?){200}c"]
)
def test_no_expression_takes_long_for_a_name(expression: str) -> None:
    """An engine that goes back on its steps would not end before the tests' own deadline; measured here: at most 2.5 ms each."""
    pattern = TopicPattern(expression)
    for _ in range(5):
        pattern.matches(LONGEST_NAME)


def test_budget_is_spent_and_comes_back_with_time() -> None:
    budget = MatchingBudget()
    budget.refill(1_000)
    assert budget.spend(budget.capacity_ns + 1_000_000)
    assert not budget.spend(1)
    budget.refill(1_005)
    assert not budget.spend(1)
    budget.refill(1_006)
    assert budget.spend(1)
    budget.refill(1_000)  # time never goes back
    budget.refill(10_000_000)
    assert budget._left_ns == budget.capacity_ns


def test_scan_stops_when_the_budget_is_used_up_and_goes_on_where_it_was() -> None:
    names = [f"{LONGEST_NAME[:-4]}{number:04}" for number in range(300)]
    scan = TopicScan("(a|b)*[0-9]{4}", names=names, already_matched=["kept"])
    budget = MatchingBudget()
    now_ms, slices = 0, 1
    budget.refill(now_ms)
    while not scan.proceed(budget):
        now_ms += 5
        slices += 1
        budget.refill(now_ms)
    assert scan.matched == {"kept", *names}
    assert 1 < slices < 50


def test_usual_expression_is_done_at_once() -> None:
    budget = MatchingBudget()
    budget.refill(0)
    assert TopicScan("orders-.*", names=[f"orders-{number}" for number in range(1_000)]).proceed(budget)


def test_expression_that_another_broker_accepted_matches_nothing_new() -> None:
    scan = TopicScan("(", names=["a"], already_matched=["b"])
    assert scan.proceed(MatchingBudget())
    assert scan.matched == {"b"}
