import subprocess
import sys
from pathlib import Path

import pytest

from millstream.errors import CommandFailed
from millstream.spark.jobs.running.checkpoint_lock import FILE_NAME, locked_checkpoint

HOLD = (
    "import sys, time\n"
    "from millstream.spark.jobs.running.checkpoint_lock import locked_checkpoint\n"
    "with locked_checkpoint(sys.argv[1]):\n"
    "    print('locked', flush=True)\n"
    "    sys.stdin.read()\n"
)


def test_one_run_at_a_time_has_a_checkpoint_and_a_killed_one_leaves_it(tmp_path: Path) -> None:
    place = str(tmp_path / "checkpoint")
    holder = subprocess.Popen([sys.executable, "-c", HOLD, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(CommandFailed, match=rf"Another run \(process {holder.pid}\) uses the checkpoint"), locked_checkpoint(place):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with locked_checkpoint(place):
        assert Path(place, FILE_NAME).exists()
    with locked_checkpoint(place):
        pass


def test_a_checkpoint_elsewhere_is_not_locked_and_one_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with locked_checkpoint("hdfs://nn/checkpoint"):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandFailed, match="cannot be written to: "), locked_checkpoint(str(tmp_path / "file" / "checkpoint")):
        pass
