"""A registry without a log, for each test."""

import pytest

from tests.unit.registry.book import Book


@pytest.fixture
def book() -> Book:
    return Book()
