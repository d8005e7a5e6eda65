"""Pages that start brokers of their own, beside the one at 127.0.0.1:9092 with which each begins.

The runner of pages gives every broker free ports, so it does not notice what a person would: that two of them want the same one, and that
the commands after it still go to a broker that was stopped.
"""

import re

from tests.documents.page import Block, all_pages

IN_THE_BACKGROUND = re.compile(r"^millstream serve .*&$", re.MULTILINE)


def blocks_with_brokers() -> list[Block]:
    found = [block for page in all_pages() for block in page.blocks if not block.not_run and IN_THE_BACKGROUND.search(block.text)]
    assert found
    return found


def test_a_broker_that_a_page_starts_in_the_background_takes_free_ports() -> None:
    starts = [(block.place, start) for block in blocks_with_brokers() for start in IN_THE_BACKGROUND.findall(block.text)]
    assert [(place, start) for place, start in starts if "--listen 127.0.0.1:0" not in start] == []


def test_the_next_commands_do_not_go_to_a_broker_that_was_stopped() -> None:
    exporting = [block for block in blocks_with_brokers() if "export MILLSTREAM_BROKERS=" in block.text]
    assert [block.place for block in exporting if not block.text.endswith("unset MILLSTREAM_BROKERS\n")] == []
