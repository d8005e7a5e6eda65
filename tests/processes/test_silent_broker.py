"""A broker that is there and does nothing is noticed by the one that started it; one that only was slow goes on."""

import os
import signal
from pathlib import Path

import pytest

from millstream.broker.server_options import ServerOptions
from millstream.processes import broker_process
from millstream.processes.broker_processes import BrokerProcesses
from tests.waiting import eventually


async def test_a_broker_that_goes_on_after_a_while_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(broker_process, "SIGN_S", 0.01)
    monkeypatch.setattr(broker_process, "STEPS_TO_KILL", 1 << 30)
    async with BrokerProcesses(ServerOptions(listen_port=0, coordination_port=0, data=(tmp_path,)), 1) as brokers:
        process = brokers.brokers[0].process
        assert process is not None
        os.kill(process.pid, signal.SIGSTOP)
        try:
            await eventually(lambda: "broker 1 does not answer" in caplog.text)
        finally:
            os.kill(process.pid, signal.SIGCONT)
        await eventually(lambda: "broker 1 answers again" in caplog.text)
        assert brokers.brokers[0].process is process
        assert process.returncode is None
