"""Job files: what is in them becomes a job, and every mistake becomes a sentence that says where it is."""

from pathlib import Path

import pytest

from millstream.errors import UsageError
from millstream.spark.jobs.description.job_file import read_job, read_job_of
from millstream.spark.jobs.description.join_job import JoinJob, JoinTable
from millstream.spark.jobs.description.measure import Measure
from millstream.spark.jobs.description.windows_job import Window, WindowsJob

WINDOWS = """
name = "views"
brokers = "127.0.0.1:9092"
checkpoint = "checkpoints/views"

[input]
topic = "page-views"
schema = "page STRING, user STRING, at BIGINT, place STRUCT<country: STRING, city: STRING>"
time = "at"
deduplicate = true
max-per-batch = 1000

[input.columns]
is_home = "page = '/'"

[window]
size = "10 minutes"
by = ["page", "place.country"]

[measures]
views = "count"
users = "distinct(user)"

[output]
topic = "views-per-page"
"""
JOIN = """
name = "clicked"
brokers = "127.0.0.1:9092"
checkpoint = "checkpoints/clicked"
registry = "http://127.0.0.1:8081"

[left]
topic = "page-views"
format = "avro"

[right]
topic = "clicks"
format = "avro"
watermark = "20 minutes"

[join]
on = ["user", "page"]
type = "left"
within = "5 minutes"

[output]
topic = "clicked-views"
format = "avro"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "job.toml"


def read(file: Path, text: str) -> WindowsJob | JoinJob:
    file.write_text(text)
    return read_job(file)


def test_a_file_with_windows_is_a_windows_job(file: Path) -> None:
    job = read(file, WINDOWS)
    assert isinstance(job, WindowsJob)
    assert job.window == Window(size="10 minutes", by=("page", "place.country"))
    assert job.keys == ["page", "country"]
    assert job.parsed_measures[0] == Measure("views", "count")
    assert job.input.deduplicate is True
    assert job.input.max_per_batch == 1000
    assert job.span_ms == 20 * 60_000
    assert job.group == "millstream-pipeline-views"


def test_a_file_with_a_join_is_a_join_job(file: Path) -> None:
    job = read(file, JOIN)
    assert isinstance(job, JoinJob)
    assert sorted(job.inputs) == ["left", "right"]
    assert job.span_ms == 25 * 60_000


def test_a_stream_can_be_joined_with_a_table(file: Path) -> None:
    text = JOIN.replace('[right]\ntopic = "clicks"\nformat = "avro"\nwatermark = "20 minutes"', '[table]\npath = "users.parquet"')
    job = read(file, text.replace('within = "5 minutes"', ""))
    assert isinstance(job, JoinJob)
    assert job.table == JoinTable(path="users.parquet")


def test_a_command_takes_only_its_own_kind_of_job(file: Path) -> None:
    file.write_text(JOIN)
    with pytest.raises(UsageError, match=r"there is no section \[left\]"):
        read_job_of(WindowsJob, file)


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ('name = "views"', 'nmae = "views"', "a job has no setting 'nmae'. Did you mean 'name'?"),
        ("[window]", "[windwo]", r"there is no section \[windwo\]. Did you mean 'window'?"),
        ("[input.columns]", "[input.colums]", r"there is no section \[input.colums\]. Did you mean 'columns'?"),
        ("deduplicate = true", 'deduplicate = "yes"', "input.deduplicate: 'yes' is not true or false or a list of texts"),
        ("max-per-batch = 1000", "max-per-batch = true", "input.max-per-batch: True is not a whole number"),
        ("max-per-batch = 1000", "max-per-batch = -1", r"\[input\] max-per-batch: -1"),
        ("deduplicate = true", "deduplicate = []", "the list is empty"),
        ("deduplicate = true", 'deduplicate = ["id"]', "have no column 'id'"),
        ("deduplicate = true", 'start = "@yesterday"', r"\[input\] start: '@yesterday' is none of"),
        ("deduplicate = true", 'malformed = "ignore"', "is none of fail, skip, dead-letters"),
        ("deduplicate = true", 'dead-letters = "bad"', 'nothing goes there with malformed = "fail"'),
        ("deduplicate = true", 'malformed = "dead-letters"\ndead-letters = "page-views"', "is the topic that is read"),
        ("deduplicate = true", 'malformed = "dead-letters"\ndead-letters = "views-per-page"', "is another topic of this job"),
        ("deduplicate = true", 'watermark = "a while"', r"\[input\] watermark: 'a while' is not a duration"),
        ('topic = "page-views"', 'topic = "page views"', "cannot be the name of a topic"),
        ('topic = "page-views"', 'topic = "page-views"\nformat = "yaml"', "'yaml' is none of json, avro, string"),
        ('topic = "page-views"', 'topic = "page-views"\nformat = "avro"', "describes json"),
        ('time = "at"', 'time = "when"', "the messages of page-views have no column 'when'"),
        ('is_home = "page', 'message_key = "page', "cannot be the name of a computed column"),
        ('size = "10 minutes"', 'size = "10 minuets"', r"\[window\] size: '10 minuets' is not a duration"),
        ('size = "10 minutes"', "", r"\[window\] size: windows of kind tumbling need it"),
        ('size = "10 minutes"', 'kind = "session"', "windows of kind session need it, as in gap"),
        ('size = "10 minutes"', 'kind = "session"\ngap = "1 hour"\nsize = "10 minutes"', "size: windows of kind session have none"),
        ('size = "10 minutes"', 'kind = "sliding"\nsize = "10 minutes"\nslide = "3 minutes"', "does not divide the size"),
        ('size = "10 minutes"', 'kind = "hopping"\nsize = "10 minutes"', "is none of tumbling, sliding, session"),
        ('by = ["page", ', 'by = ["pgae", ', r"\[window\] by: .* no column 'pgae'. Did you mean 'page'"),
        ('by = ["page", ', 'by = ["page", "page", ', "a column is there twice"),
        ('by = ["page", ', 'by = ["page", "Page", ', "a column is there twice"),
        ('by = ["page", ', 'by = "page"  # [', "window.by: 'page' is not a list of texts"),
        ('views = "count"', 'views = "cnt"', "no measure 'cnt'"),
        ('views = "count"', "views = 1", "measures: .* is not a table of texts"),
        ('views = "count"', 'page = "count"', "have a column of this name already"),
        ('views = "count"', 'Window_Start = "count"', "have a column of this name already"),
        ('views = "count"', 'views = "count"\nViews = "count"', "have a column of this name already"),
        ('users = "distinct(user)"', 'users = "distinct(usr)"', r"\[measures\] users: .* no column 'usr'. Did you mean 'user'"),
        ('views = "count"\nusers = "distinct(user)"', "", "nothing is measured"),
        ('topic = "views-per-page"', 'topic = "page-views"', "the job would read its own results"),
        ('topic = "views-per-page"', 'topic = "views-per-page"\nformat = "avro"', "where the schema registry is"),
        ('topic = "views-per-page"', "", r"\[output\] results need a topic or a table"),
        ('topic = "views-per-page"', 'topic = "views-per-page"\npartitions = 0', "is not a number of partitions"),
        ('brokers = "127.0.0.1:9092"', "", "brokers: it is missing"),
        ('brokers = "127.0.0.1:9092"', 'brokers = " "', "brokers: it is empty"),
        ('checkpoint = "checkpoints/views"', 'checkpoint = "c"\ntrigger = "often"', "trigger: 'often' is not a duration"),
        ('checkpoint = "checkpoints/views"', 'checkpoint = "checkpoints/{views}"', "which Spark takes for a pattern"),
        ('name = "views"', 'name = "my views"', "cannot be a job's"),
        ("[output]", "[output", "is no TOML"),
        ('[output]\ntopic = "views-per-page"', "", r"the section \[output\] is missing"),
        ('name = "views"', 'name = "views"\ncomplete-from-ms = 5', "has no setting 'complete-from-ms'"),
    ],
)
def test_a_mistake_in_a_windows_file_is_said_in_a_sentence(file: Path, right: str, wrong: str, problem: str) -> None:
    assert right in WINDOWS
    with pytest.raises(UsageError, match=problem) as caught:
        read(file, WINDOWS.replace(right, wrong))
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ('within = "5 minutes"', "", r"\[join\] within: two streams need it"),
        ('on = ["user", "page"]', "on = []", "name the columns that have to be equal"),
        ('on = ["user", "page"]', 'on = ["user.id"]', "is not the name of a column"),
        ('type = "left"', 'type = "outer"', "'outer' is none of inner, left"),
        ("[right]", "[table]", "table has no setting 'watermark'|has no setting 'watermark'"),
        ('registry = "http://127.0.0.1:8081"', "", "registry: "),
        ('[right]\ntopic = "clicks"\nformat = "avro"\nwatermark = "20 minutes"', "", r"either another stream, \[right\], or a table"),
        ("[join]", '[table]\npath = "a"\n[join]', r"either another stream, \[right\], or a table"),
        ("[join]", '[table]\npath = "a"\ntopic = "b"\n[join]', "give one of the two"),
        ("[join]", '[table]\npath = "a"\nrefresh = "now and then"\n[join]', r"\[table\] refresh: 'now and then' is not a duration"),
        ("[join]", '[table]\npath = "a"\nformat = "csv"\n[join]', r"\[table\] schema: a table of format csv needs it"),
    ],
)
def test_a_mistake_in_a_join_file_is_said_in_a_sentence(file: Path, right: str, wrong: str, problem: str) -> None:
    assert right in JOIN
    with pytest.raises(UsageError, match=problem):
        read(file, JOIN.replace(right, wrong))


def test_a_mistake_is_said_with_its_line(file: Path) -> None:
    with pytest.raises(UsageError, match=rf"^{file}, line 6: \[input\] has no setting 'watermrk'. Did you mean 'watermark'\?"):
        read(file, WINDOWS.strip().replace('topic = "page-views"', 'watermrk = "1 hour"\ntopic = "page-views"'))


def test_a_file_that_is_not_there_and_one_that_is_not_text_are_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*No such file"):
        read_job(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is no TOML"):
        read_job(tmp_path / "bytes.toml")


def test_columns_of_avro_are_checked_with_the_fields_of_the_registry(file: Path) -> None:
    job = read(file, JOIN)
    job.check_columns({"left": ["user", "page"], "right": ["user", "page"]})
    with pytest.raises(UsageError, match="the messages of clicks have no column 'page'"):
        job.check_columns({"left": ["user", "page"], "right": ["user", "pages"]})


def test_the_examples_are_jobs() -> None:
    examples = Path(__file__).parents[5] / "examples" / "pipeline"
    jobs = {file.stem: read_job(file) for file in examples.glob("*.toml")}
    assert {name: type(job) for name, job in jobs.items()} == {"views_per_page": WindowsJob, "clicked_views": JoinJob}
