"""ApiVersions: the first thing every client asks, with the corner cases that have broken brokers and clients."""

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import Broker
from tests.connection import API_VERSIONS, METADATA, decode_response, encode_request

CLIENT = {"client_software_name": "tests", "client_software_version": "1.0"}

KAFKA_4_2 = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 10: (0, 6), 18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0, 5), 23: (2, 4),
    29: (1, 3), 30: (1, 3), 31: (1, 3), 32: (1, 4), 33: (0, 2), 35: (1, 4), 37: (0, 3), 43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0),
    48: (0, 1), 50: (0, 0), 55: (0, 2), 60: (0, 2), 61: (0, 0), 66: (0, 2), 74: (0, 1), 75: (0, 0),
}  # fmt: skip
"""What a stock Kafka 4.2 answers for the APIs that this broker has to have."""


def advertised(broker: Broker, version: int = 4) -> dict[int, tuple[int, int]]:
    """Lowest and highest version of each API that the broker offers."""
    with broker.connect() as connection:
        answer = connection.ask(API_VERSIONS, version, CLIENT)
    assert answer.error_code == ErrorCode.none
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


@pytest.mark.parametrize("version", range(5))
def test_every_version_lists_the_same_apis(broker: Broker, version: int) -> None:
    assert advertised(broker, version) == advertised(broker, 4)


@pytest.mark.parametrize(("api_key", "versions"), KAFKA_4_2.items())
def test_offered_versions_are_those_of_kafka(broker: Broker, api_key: int, versions: tuple[int, int]) -> None:
    assert advertised(broker)[api_key] == versions


def test_version_that_is_too_new_is_answered_in_version_0_and_the_connection_goes_on(broker: Broker) -> None:
    frame = bytearray(encode_request(API_VERSIONS, 4, CLIENT, correlation_id=77))
    frame[6:8] = (99).to_bytes(2, "big")
    with broker.connect() as connection:
        connection.socket.sendall(frame)
        correlation_id, answer = decode_response(API_VERSIONS, 0, connection.receive_frame())
        assert (correlation_id, answer.error_code) == (77, ErrorCode.unsupported_version)
        assert (API_VERSIONS, 0, 4) in [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys]
        assert connection.ask(API_VERSIONS, 4, CLIENT).error_code == ErrorCode.none


@pytest.mark.parametrize("name", ["", "with space", "-dash", "dot.", "ü", "a" + "\x00"])
def test_client_software_name_that_is_not_allowed_is_an_invalid_request(broker: Broker, name: str) -> None:
    with broker.connect() as connection:
        answer = connection.ask(API_VERSIONS, 3, {"client_software_name": name, "client_software_version": "1"})
        assert answer.error_code == ErrorCode.invalid_request


def test_client_software_is_not_asked_for_before_version_3(broker: Broker) -> None:
    with broker.connect() as connection:
        assert connection.ask(API_VERSIONS, 0).error_code == ErrorCode.none


def test_features_that_start_at_0_are_left_out_before_version_4(broker: Broker) -> None:
    with broker.connect() as connection:
        answer = connection.ask(API_VERSIONS, 3, CLIENT)
    assert [feature.name for feature in answer.supported_features if feature.min_version == 0] == []


def test_finalized_features_are_supported_ones(broker: Broker) -> None:
    with broker.connect() as connection:
        answer = connection.ask(API_VERSIONS, 4, CLIENT)
    supported = {feature.name: feature.max_version for feature in answer.supported_features}
    for feature in answer.finalized_features:
        assert feature.max_version_level <= supported[feature.name]


@pytest.mark.parametrize("api_key", [API_VERSIONS, METADATA])
def test_unknown_tagged_fields_are_skipped(broker: Broker, api_key: int) -> None:
    """In the header and in the body; both end with an empty list of tags, which is replaced by one with an unknown tag."""
    fields: dict[str, object] = dict(CLIENT) if api_key == API_VERSIONS else {"topics": []}
    version = 3 if api_key == API_VERSIONS else 12
    frame = encode_request(api_key, version, fields, client_id="tests")
    unknown = b"\x01\x9a\x05\x03abc"
    header_end = 4 + 2 + 2 + 4 + 2 + len("tests")
    assert frame[header_end] == 0
    assert frame[-1] == 0
    body = frame[4:header_end] + unknown + frame[header_end + 1 : -1] + unknown
    with broker.connect() as connection:
        connection.socket.sendall(len(body).to_bytes(4, "big") + body)
        correlation_id, _ = connection.receive(api_key, version)
        assert correlation_id == 1


def test_client_may_have_no_id(broker: Broker) -> None:
    with broker.connect() as connection:
        body = b"\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff"
        connection.socket.sendall(len(body).to_bytes(4, "big") + body)
        assert connection.receive(API_VERSIONS, 0)[0] == 7
