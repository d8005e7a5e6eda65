from millstream.client.portions import portions


def test_values_come_in_lists_of_at_most_so_many() -> None:
    assert list(portions(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(portions([], 3)) == []
