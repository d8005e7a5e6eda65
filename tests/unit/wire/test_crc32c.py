import subprocess
import sys

import crc32c as package

from millstream.wire.crc32c import crc32c


def test_it_is_the_packages_own_function() -> None:
    assert crc32c(b"123456789") == package.crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283


def test_nothing_else_of_the_package_is_loaded() -> None:
    code = "import sys, millstream.wire.crc32c; print({'crc32c', 'importlib.metadata', 'email'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
