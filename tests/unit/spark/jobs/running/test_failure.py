from millstream.spark.jobs.running.failure import sentence_of, why_not_started


def test_a_sentence_of_ours_is_found_in_the_page_of_tracebacks() -> None:
    page = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed
Traceback (most recent call last):
  File "reader.py", line 3, in latestOffset
millstream.errors.UnknownTopicOrPartition: clicks: no such topic
    at org.apache.spark.sql.Something(File.scala:3)"""
    assert sentence_of(page) == "clicks: no such topic"


def test_an_error_of_python_is_its_last_line() -> None:
    assert (
        sentence_of("Traceback\n  File x\nOSError: [Errno 28] No space left on device\n at java")
        == "OSError: [Errno 28] No space left on device"
    )


def test_two_runs_with_one_checkpoint_are_explained() -> None:
    said = sentence_of("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. SQLSTATE: 40000")
    assert said.startswith("another run of this job has the same checkpoint")


def test_an_error_of_sparks_own_is_its_message() -> None:
    assert sentence_of("[STREAM_FAILED] Query failed: [PATH_NOT_FOUND] Path does not exist: x.\n at a.b(c)") == "Path does not exist: x."
    assert sentence_of("something else\n  at java") == "something else"


def test_a_long_sentence_is_cut() -> None:
    assert len(sentence_of("ValueError: " + "x" * 5_000)) < 1_100


def test_why_a_jvm_did_not_come_up_is_what_it_said_last() -> None:
    said = (
        "WARNING: Using incubator modules: jdk.incubator.vector\n"
        'Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn or start with spark, k8s, or local\n'
        "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1047)\n"
    )
    assert why_not_started(said) == "Master must either be yarn or start with spark, k8s, or local"
    assert why_not_started("Error: Could not create the Java Virtual Machine.\n") == "Could not create the Java Virtual Machine."
    assert why_not_started("") == "it did not say why."
