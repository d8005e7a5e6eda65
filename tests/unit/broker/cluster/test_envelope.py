import pytest

from millstream.broker.cluster.envelope import Sender, decode_principal, encode_principal
from millstream.broker.network.session import Session
from millstream.coordination.cluster_view import BrokerState, ClusterView
from millstream.errors import KafkaError
from millstream.replication_errors import BrokerIdNotRegistered, PrincipalDeserializationFailure, StaleBrokerEpoch
from tests.unit.broker.cluster.envelopes import envelope_from

VIEW = ClusterView(brokers={2: BrokerState(2, "localhost", 9092, epoch=2**40)})


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", ""])
def test_controller_learns_who_the_client_is_and_which_broker_it_asked(host: str) -> None:
    client = Session("PLAINTEXT", host, software_name="librdkafka", software_version="2.3")
    message = envelope_from(client, broker_id=2, broker_epoch=2**40)
    sender, found = decode_principal(message.request_principal, host=message.client_host_address)
    assert (sender, found) == (Sender(2, 2**40), client)


@pytest.mark.parametrize(
    ("principal", "host"),
    [
        (None, b""),
        (b"", b""),
        (b"[]", b""),
        (b'{"broker_id": -1}', b""),
        (b"\xff", b""),
        (encode_principal(Sender(1, 1), Session("A", "")), b"abc"),
    ],
)
def test_envelope_that_does_not_say_whose_it_is_is_refused(principal: bytes | None, host: bytes) -> None:
    with pytest.raises(PrincipalDeserializationFailure):
        decode_principal(principal, host=host)


@pytest.mark.parametrize(
    ("sender", "error"), [(Sender(3, 2**40), BrokerIdNotRegistered), (Sender(2, 7), StaleBrokerEpoch), (Sender(2, -1), StaleBrokerEpoch)]
)
def test_only_registered_brokers_send_envelopes(sender: Sender, error: type[KafkaError]) -> None:
    Sender(2, 2**40).check_registered(VIEW)
    found, _ = decode_principal(encode_principal(sender, Session("A", "")), host=b"")
    with pytest.raises(error):
        found.check_registered(VIEW)
