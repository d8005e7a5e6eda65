from millstream.mirror.group_names import has_members_alone, members_of, progress_group


def test_the_group_of_the_processes_is_known_by_its_name_and_the_one_of_the_progress_is_not_it() -> None:
    progress = progress_group("offline")
    assert has_members_alone(members_of(progress))
    assert not has_members_alone(progress)
    assert not has_members_alone("orders-members")
