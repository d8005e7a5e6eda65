from millstream.auditor.auditor import JUDGE_S, pause_after


def test_the_pause_between_two_looks_grows_with_what_a_look_costs() -> None:
    assert pause_after(0.1, clusters=1) == pause_after(0.1, clusters=2) == JUDGE_S
    assert pause_after(30.0, clusters=1) == 120.0
    assert pause_after(3.0, clusters=2) == 60.0
