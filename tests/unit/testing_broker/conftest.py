"""One broker for the tests of what a test does with it; each uses topics of its own."""

from collections.abc import Iterator

import pytest

from millstream.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running
