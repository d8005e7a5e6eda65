"""Functions over numpy arrays that numba turns into machine code, where there is a numba; elsewhere the same functions run as they stand.

Compiling takes seconds, so the outcome is kept on disk: beside the module where that may be written, else in the user's cache, else in a
private temporary folder. A package that came as a zip (`--py-files`) has no folder of its own and uses the user's cache. Where nothing can
be written each process compiles for itself. What is kept is found under a name that has a digest of this package's sources in it: numba
itself sees neither that a function of another module, which became part of the code, has changed, nor that a type has moved, and then
fails to load the index.

What is compiled releases the GIL: the thread that fetches the next bytes runs beside it. Such functions keep to int64 (`np.int64(...)`
around every byte), so that they give the same results with and without numba.
"""

import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

logger = logging.getLogger(__name__)

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Ends = npt.NDArray[np.int32]
"""Where the values of an Arrow array with offsets end."""
Flags = npt.NDArray[np.bool_]

F = TypeVar("F", bound=Callable[..., Any])
Number = Any
"""An integer in compiled code: int64, or whatever Python makes of it where nothing is compiled."""


def _find_numba() -> ModuleType | None:
    try:
        return import_module("numba")
    except ImportError:  # `warn_if_slow` says so
        return None


numba: Any = _find_numba()
_warned: set[str] = set()


def compiled(function: F) -> F:
    """The function as machine code if numba is there; compiled when first called, or loaded from where that was kept."""
    if numba is None:
        return function
    name = function.__qualname__
    function.__qualname__ = f"{name}-{_source_digest()}"  # numba makes the name of the files now, and all others later
    try:
        code: F = numba.njit(cache=_can_cache(function.__code__.co_filename), nogil=True)(function)
    except RuntimeError:  # numba found no folder it may write to
        numba.config.CACHE_DIR = str(_private_folder())
        code = numba.njit(cache=True, nogil=True)(function)
    finally:
        function.__qualname__ = name
    return code


def warn_if_slow() -> None:
    """Warn once per process that records are decoded by the interpreter."""
    if numba is None and "slow" not in _warned:
        _warned.add("slow")
        logger.warning(
            "numba is not installed in this Python, so records are decoded about a hundred times slower:"
            " pip install '.[arrow]' in a checkout of Millstream"
        )


@cache
def _source_digest() -> str:
    digest = sha256()
    for source in _sources(files("millstream.arrow")):
        digest.update(source)
    return digest.hexdigest()[:12]


def _sources(folder: Traversable) -> Iterator[bytes]:
    """The modules of a package, in a folder or a zip, whose functions and types may be part of compiled code."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".py"):
            yield entry.read_bytes()
        elif entry.is_dir():
            yield from _sources(entry)


def _can_cache(file: str) -> bool:
    if ".zip" not in file:
        return True
    # numba keeps the code of zipped modules in the user's cache, and fails late if that cannot be written.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(cache, os.W_OK)


def _private_folder() -> Path:
    """A folder that only this user can write to: what is loaded from it is code."""
    folder = Path(tempfile.gettempdir()) / f"millstream-numba-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o022:
        return Path(tempfile.mkdtemp(prefix="millstream-numba-"))
    return folder
