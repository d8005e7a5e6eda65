from millstream.monitoring.exposition import family
from millstream.monitoring.lines import Lines

KEYS = ["a", "b"]


def label(key: str) -> str:
    return f'{{topic="{key}"}}'


def test_the_lines_are_those_of_a_small_family() -> None:
    lines = Lines()
    text = lines.family("size", "gauge", "Bytes.", lines.labels("topics", KEYS, label), ["1", "2"])
    assert text == family("size", "gauge", "Bytes.", [(label("a"), 1), (label("b"), 2)])


def test_labels_are_written_once_while_the_keys_are_the_same() -> None:
    written: list[str] = []

    def write(key: str) -> str:
        written.append(key)
        return label(key)

    lines = Lines()
    for _ in range(3):
        lines.labels("topics", list(KEYS), write)
    assert written == KEYS


def test_another_key_is_on_the_next_page() -> None:
    lines = Lines()
    for keys in (["a"], ["b"], ["b", "c"]):
        text = lines.family("size", "gauge", "Bytes.", lines.labels("topics", keys, label), map(str, range(len(keys))))
        assert text.splitlines()[2:] == [f"size{label(key)} {number}" for number, key in enumerate(keys)]


def test_no_series_is_no_family() -> None:
    assert Lines().family("size", "gauge", "Bytes.", [], []) == ""
