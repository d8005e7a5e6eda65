import socket

import pytest

from millstream.client.cluster import Cluster
from millstream.client.errors import BrokerUnavailable


def test_that_no_broker_answers_is_said_once_for_each_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with Cluster(address) as cluster, pytest.raises(BrokerUnavailable) as raised:
        cluster.refresh([])
    assert str(raised.value).count("no broker answers") == 1
    assert str(raised.value).startswith(f"no broker answers at {address}: ")
