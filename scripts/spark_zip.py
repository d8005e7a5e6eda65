#!/usr/bin/env python3
"""Packs Millstream for `spark-submit --py-files`: the two packages in one zip.

    scripts/spark_zip.py millstream.zip

The executors need the libraries besides (numba, numpy, pyarrow, crc32c, cramjam): compiled libraries cannot be imported from a zip.
"""

import sys
import zipfile
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"
PACKAGES = ("millstream", "pyspark_millstream")


def pack(target: Path) -> int:
    """Write the zip; returns how many files it has."""
    files = [file for package in PACKAGES for file in sorted((SOURCES / package).rglob("*.py"))]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.relative_to(SOURCES))
    return len(files)


def main() -> None:
    """Pack into the file named on the command line."""
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: {sys.argv[0]} ZIP")
    target = Path(sys.argv[1])
    print(f"{target}: {pack(target)} files")


if __name__ == "__main__":
    main()
