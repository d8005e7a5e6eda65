"""What a registry and Avro need beyond what Millstream itself needs: the extra `registry`."""

from importlib.util import find_spec
from typing import Final

NEEDED: Final = ("starlette", "uvicorn")
INSTALL: Final = "pip install '.[registry]' in a checkout of Millstream"


def missing_packages() -> list[str]:
    """What a registry needs and is not installed."""
    return [name for name in NEEDED if find_spec(name) is None]
