from pathlib import Path

import pytest

from millstream.files import Files
from millstream.zookeeper.keeper import TreeKeeper
from millstream.zookeeper.server import CoordinationServer
from tests.manual_clock import ManualClock
from tests.unit.zookeeper.raw_client import RawClient


async def test_four_letter_words_are_answered_and_close_the_connection(tmp_path: Path, clock: ManualClock) -> None:
    keeper = await TreeKeeper.open(tmp_path, files=Files(), clock=clock)
    server = CoordinationServer(keeper)
    port = await server.start()
    session = await RawClient.connect(port)
    for word, expected in (
        (b"ruok", b"imok"),
        (b"srvr", b"Mode: standalone"),
        (b"stat", b"127.0.0.1:"),
        (b"envi", b"zookeeper.version=3.9"),
    ):
        client = await RawClient.open(port)
        client.send_raw(word)
        assert expected in await client.rest()
    await session.close()
    await server.close()
    await keeper.close()


async def test_a_taken_port_is_an_error_of_the_operating_system(tmp_path: Path, clock: ManualClock) -> None:
    keeper = await TreeKeeper.open(tmp_path, files=Files(), clock=clock)
    first, second = CoordinationServer(keeper), CoordinationServer(keeper)
    port = await first.start()
    with pytest.raises(OSError, match="address already in use"):
        await second.start("127.0.0.1", port)
    await second.close()
    await first.close()
    await keeper.close()
