import subprocess
import sys
import tempfile
from pathlib import Path

from millstream.spark.jobs.running.spark_log import FILE_NAME, last_words, log_options, log_path, stderr_of_new_processes


def test_the_log_is_beside_the_checkpoint_or_among_temporary_files(tmp_path: Path) -> None:
    assert log_path("lake", str(tmp_path)) == tmp_path / FILE_NAME
    assert log_path("lake", "hdfs://nn/checkpoint").parent == Path(tempfile.gettempdir())


def test_the_configuration_of_the_log_is_part_of_the_package(tmp_path: Path) -> None:
    [options] = log_options(tmp_path / "a b.log").values()
    words = [word.strip('"') for word in options.split('" "')]
    configuration = Path(words[0].removeprefix("-Dlog4j2.configurationFile="))
    assert "${sys:millstream.spark.log}" in configuration.read_text()
    assert words[1] == f"-Dmillstream.spark.log={tmp_path}/a b.log"


def test_what_processes_say_that_are_started_goes_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "new" / "spark.log"
    assert last_words(log) == ""
    for word in ("one", "two"):
        with stderr_of_new_processes(log):
            subprocess.run([sys.executable, "-c", f"import sys; sys.stderr.write('{word} ')"], check=True)
    assert last_words(log) == "one two "
