import pytest

from millstream.registry import schema_log
from millstream.registry.errors import StoreFailed
from millstream.registry.schema_log import SchemaLog


async def test_while_no_broker_answers_a_request_is_answered_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_log, "REQUEST_SECONDS", 3_600.0)
    log = SchemaLog({"bootstrap.servers": "127.0.0.1:1"}, on_record=lambda *_: None, on_failure=lambda _: None)
    log.start()
    try:
        sentence = (
            r"^The registry has not read its log yet: no broker answers at 127\.0\.0\.1:1 \(Connection refused\)\. It goes on trying\.$"
        )
        with pytest.raises(StoreFailed, match=sentence):
            await log.caught_up()
    finally:
        await log.stop()
