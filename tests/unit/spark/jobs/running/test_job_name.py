import pytest

from millstream.errors import UsageError
from millstream.spark.jobs.running.job_name import check_name, group_of, name_after


def test_a_job_has_a_group_of_its_own() -> None:
    assert group_of("lake") == "millstream-pipeline-lake"


def test_a_checkpoint_gives_a_name_that_no_other_one_gives() -> None:
    names = [name_after(place) for place in ("/a/lake", "/b/lake", "/a/lake two", "/", "s3://bucket/lake", "/" + "x" * 200)]
    assert len(set(names)) == len(names)
    for name in names:
        check_name(name)
    assert name_after("/a/lake") == name_after("/a/lake/")


@pytest.mark.parametrize("name", ["", "two words", "x" * 101])
def test_what_no_job_can_be_called_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be a job's"):
        check_name(name)
