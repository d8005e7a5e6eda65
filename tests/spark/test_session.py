"""Spark starts with the interpreter of the driver, finds the format by itself, and says in one sentence when Java is missing."""

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from millstream.spark.session import NoJava, check_java


def test_workers_run_the_interpreter_of_the_driver(spark: SparkSession) -> None:
    def executable(_: object) -> str:
        return sys.executable

    assert spark.sparkContext.parallelize([1], 1).map(executable).collect() == [sys.executable]


def test_the_format_is_registered_by_installing_the_package(spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"kafka\.bootstrap\.servers"):
        spark.read.format("millstream").load()


def java_that_says(directory: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    java = directory / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(directory))


@pytest.mark.parametrize(("text", "major"), [('java version "1.8.0_392"', 8), ('openjdk version "11.0.2" 2019-01-15', 11)])
def test_an_old_java_is_one_clear_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, major: int) -> None:
    java_that_says(tmp_path, text, monkeypatch)
    with pytest.raises(NoJava, match=rf"^Spark needs Java 17 or newer, and .*/bin/java is {major}: install a newer one, or set JAVA_HOME"):
        check_java()


def test_a_missing_java_is_one_clear_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJava, match=r"^Spark needs Java 17 or newer and there is no java command"):
        check_java()


def test_something_else_called_java_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_that_says(tmp_path, "hello", monkeypatch)
    with pytest.raises(NoJava, match="does not say its version"):
        check_java()


def test_a_java_that_is_new_enough_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_that_says(tmp_path, 'openjdk version "21" 2023-09-19', monkeypatch)
    check_java()
