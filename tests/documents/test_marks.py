"""What is not run is marked with a reason, counted, and not much: `python -m tests.documents.test_marks` lists it."""

from collections import Counter

from tests.documents.page import Block, all_pages

RUN = {"python", "sh", "console", "sql", "text"}
NOT_RUN = {
    "CONTRIBUTING.md": 3,
    "README.md": 4,
    "docs/architecture.md": 1,
    "docs/audit.md": 4,
    "docs/client.md": 2,
    "docs/demo.md": 2,
    "docs/first-week.md": 2,
    "docs/monitoring.md": 1,
    "docs/operating.md": 6,
    "docs/operations.md": 7,
    "docs/performance.md": 1,
    "docs/pipeline.md": 8,
    "docs/registry.md": 2,
    "docs/scale.md": 1,
    "docs/spark-sink.md": 3,
    "docs/spark.md": 1,
    "docs/storage.md": 6,
    "docs/tables.md": 1,
    "docs/testing.md": 1,
    "docs/windows-and-joins.md": 7,
}
"""How many blocks of a page are not run. Who adds one says why here, or better makes it run."""


def all_blocks() -> list[Block]:
    return [block for page in all_pages() for block in page.blocks]


def test_every_block_says_what_language_it_is() -> None:
    assert [block.place for block in all_blocks() if not block.language] == []


def test_every_block_is_run_or_is_a_file_or_says_why_not() -> None:
    assert [block.place for block in all_blocks() if block.language not in RUN and not (block.file or block.not_run)] == []


def test_a_reason_is_a_sentence_and_not_a_word() -> None:
    assert [block.place for block in all_blocks() if block.not_run and len(block.not_run.split()) < 2] == []


def test_what_is_not_run_is_counted() -> None:
    assert Counter(block.page for block in all_blocks() if block.not_run) == NOT_RUN


if __name__ == "__main__":
    for block in all_blocks():
        if block.not_run:
            print(f"{block.place}: {block.not_run}")
