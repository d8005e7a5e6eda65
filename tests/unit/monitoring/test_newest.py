import threading

from millstream.monitoring.newest import Newest


def test_what_was_too_slow_to_be_taken_is_passed_over() -> None:
    newest: Newest[int] = Newest()
    for number in range(3):
        newest.put(number)
    assert newest.take() == 2


def test_taking_waits_for_a_value() -> None:
    newest: Newest[str] = Newest()
    taken: list[str] = []
    taking = threading.Thread(target=lambda: taken.append(newest.take()))
    taking.start()
    newest.put("a")
    taking.join(30)
    assert taken == ["a"]
