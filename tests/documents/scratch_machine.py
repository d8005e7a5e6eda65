"""Scripts that change the machine, run where they change nothing: as root of a copy of this machine's files that is gone afterwards.

The copy is an overlay (what is written is in memory) in a mount namespace of its own, entered with chroot. `ALONE`, before a command, also
gives it a network of its own, so that it can have the ports that it always has. It is no virtual machine: kernel and processes are those
of this machine.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.documents.page import ROOT

ALONE = "unshare --net -- bash -c 'ip link set lo up && exec \"$@\"' alone"

ENTER = r"""
set -euo pipefail
mount -t tmpfs tmpfs "$SCRATCH"
mkdir "$SCRATCH"/{written,work,copy}
mount -t overlay overlay -o "lowerdir=/,upperdir=$SCRATCH/written,workdir=$SCRATCH/work" "$SCRATCH/copy"
for folder in dev proc; do mount --rbind "/$folder" "$SCRATCH/copy/$folder"; done
# The checkout and its Python may lie in somebody's home, or on another disk.
for folder in "$CHECKOUT" "$PYTHON_HOME"; do
  [[ -n "$(ls "$SCRATCH/copy$folder")" ]] || mount --bind "$folder" "$SCRATCH/copy$folder"
  until [[ "$folder" == / ]]; do
    chmod o+rx "$SCRATCH/copy$folder" 2>/dev/null || true
    folder=$(dirname "$folder")
  done
done
exec chroot "$SCRATCH/copy" bash -euo pipefail -c "$1"
"""


@cache
def why_there_is_none() -> str | None:
    """Why this machine lets nobody have one; None if it does."""
    if os.geteuid() != 0:
        return "only root may mount"
    for command in ("unshare", "setpriv", "ip"):
        if shutil.which(command) is None:
            return f"there is no command {command}"
    tried = subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, text=True, timeout=60, check=False)
    return f"the kernel allows no namespaces: {tried.stderr.strip()}" if tried.returncode else None


def run_in_scratch_machine(script: str, *, scratch: Path, timeout: float) -> str:
    """What a script of bash writes that runs as root in a copy of this machine's files; skips the test where that is impossible."""
    if (reason := why_there_is_none()) is not None:
        pytest.skip(reason)
    environment = os.environ | {"SCRATCH": str(scratch), "CHECKOUT": str(ROOT), "PYTHON_HOME": sys.base_prefix}
    command = ["unshare", "--mount", "--propagation", "private", "--", "bash", "-c", ENTER, "enter", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode and "overlay" in done.stderr and "mount:" in done.stderr:
        pytest.skip(f"no overlay over this machine's files: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
