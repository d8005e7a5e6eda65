import os
from types import MappingProxyType

from millstream.broker.server_options import ServerOptions
from millstream.processes.pipe import Order, read_order


def test_order_is_read_and_nothing_that_follows_it() -> None:
    reader, writer = os.pipe()
    order = Order(ServerOptions(node_id=3, options=MappingProxyType({"num.partitions": "4"})), "warning", "json")
    os.write(writer, order.encode() + b"s")
    found = read_order(reader)
    assert found is not None
    assert (found.options.node_id, found.options.options, found.log_level, found.log_format) == (
        3,
        {"num.partitions": "4"},
        "warning",
        "json",
    )
    assert os.read(reader, 10) == b"s"
    os.close(writer)
    assert read_order(reader) is None
    os.close(reader)
