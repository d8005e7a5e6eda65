"""CRC-32C, the checksum of record batches: the compiled function by itself.

The package that brings it looks up its own version when it is imported, and for that loads what reads e-mail and zip files: a tenth of the
time in which a broker starts. So its compiled module is loaded past it.
"""

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crc32c import crc32c

__all__ = ["crc32c"]


def _load() -> Any:
    package = find_spec("crc32c")
    compiled = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations) if package is not None else None
    if compiled is None or compiled.loader is None:
        from crc32c import crc32c as function  # its function is elsewhere, or it says itself what is missing

        return function
    module = module_from_spec(compiled)
    compiled.loader.exec_module(module)
    return module.crc32c


if not TYPE_CHECKING:
    crc32c = _load()
