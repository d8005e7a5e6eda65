"""Why a query failed, in one sentence: Spark wraps an error of Python in a page of Java's and Python's tracebacks.

Errors of Millstream's own are written for people, so theirs is the sentence, wherever in the page it stands. For others it is the last line
of Python's traceback, or the message of Spark's own error without its call stack.
"""

import re
from typing import Final

_OURS: Final = re.compile(r"^(?:[\w.]+: )*millstream\.[\w.]+: (?P<sentence>.+)$", re.MULTILINE)
_PYTHON: Final = re.compile(r"^(?P<sentence>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit): .+)$", re.MULTILINE)
_SPARK: Final = re.compile(r"\[(?P<name>[A-Z][A-Z0-9_.]+)\] (?P<sentence>[^\n]*?)(?=\[[A-Z][A-Z0-9_.]+\] |\n|$)")
_WRAPPERS: Final = {
    "STREAM_FAILED",
    "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR",
    "PYTHON_DATA_SOURCE_ERROR",
    "FOREACH_BATCH_USER_FUNCTION_ERROR",
}
_NOT_STARTED: Final = re.compile(
    r'^(?:Error:|Exception in thread "[^"]*"|Caused by:) (?:[\w.$]+(?:Exception|Error): )?(?P<sentence>.+)$', re.MULTILINE
)
_WORKER_GONE: Final = "Python worker exited unexpectedly"
_LONGEST: Final = 1_000
_EXPLAINED: Final = {
    "CONCURRENT_STREAM_LOG_UPDATE": "another run of this job has the same checkpoint: let only one run at a time",
    "CONCURRENT_QUERY": "another run of this job has the same checkpoint: let only one run at a time",
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE": "the checkpoint is incomplete",
}


def sentence_of(text: str) -> str:
    """The sentence in what Spark says about a failed query."""
    ours = _OURS.findall(text)
    if ours:
        return _short(ours[-1])
    causes = [(found["name"], found["sentence"]) for found in _SPARK.finditer(text)]
    for name, sentence in causes:
        if name.split(".")[0] in _EXPLAINED:
            return f"{_EXPLAINED[name.split('.')[0]]}. ({_short(sentence)})"
    if _WORKER_GONE in text:
        return "a worker process of Spark was killed, perhaps for want of memory. Start the job again: it goes on where it was."
    python = [line for line in _PYTHON.findall(text) if not line.startswith("py4j.")]
    if python:
        return _short(python[-1])
    telling = [sentence for name, sentence in causes if name.split(".")[0] not in _WRAPPERS]
    return _short((telling or [text.strip().splitlines()[0] if text.strip() else "no reason was given"])[-1])


def why_not_started(log: str) -> str:
    """The sentence in what a JVM said that did not come up."""
    found = _NOT_STARTED.findall(log)
    return _short(found[-1]) if found else "it did not say why."


def _short(sentence: str) -> str:
    sentence = sentence.strip()
    return sentence if len(sentence) <= _LONGEST else sentence[:_LONGEST] + " ..."
