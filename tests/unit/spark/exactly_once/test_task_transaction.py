import socket

import pytest

from millstream.client.errors import BrokerUnavailable
from millstream.client.raw_producer import ProducerSettings, RawProducer
from millstream.spark.exactly_once.task_transaction import task_transaction


def test_a_wrong_address_is_found_out_as_soon_as_without_transactions() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    settings = ProducerSettings(address, max_block_ms=100, transaction_timeout_ms=60_000, option_prefix="kafka.")
    producer = RawProducer(settings)
    try:
        with (
            pytest.raises(
                BrokerUnavailable, match=rf"no broker answered within kafka\.max\.block\.ms = 100: no broker answers at {address}"
            ),
            task_transaction(producer, "write-0-0"),
        ):
            pass
    finally:
        producer.close()
