"""The public names of the package."""

import subprocess
import sys

import pytest

import millstream


@pytest.mark.parametrize("name", millstream.__all__)
def test_every_public_name_can_be_imported_and_is_documented(name: str) -> None:
    found = getattr(millstream, name)
    assert found.__name__ == name
    assert found.__doc__
    assert name in dir(millstream)


def test_a_missing_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        millstream.Nothing  # noqa: B018


def test_importing_the_package_loads_no_client() -> None:
    code = (
        "import sys, millstream; print([name for name in sys.modules if 'confluent' in name or 'kazoo' in name or 'millstream.' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
