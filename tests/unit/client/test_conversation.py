import pytest

from millstream.client.codecs.api_versions import ApiVersionsRequest
from millstream.client.codecs.produce import BatchFor, ProduceRequest
from millstream.client.codecs.request import MessageRequest
from millstream.client.conversation import Conversation
from millstream.errors import MalformedFrame, UnsupportedVersion
from millstream.wire.api import ApiKey
from millstream.wire.frames import frame_response, read_request_header, read_size
from millstream.wire.messages import decode_request, encode_response
from millstream.wire.responses.find_coordinator import FindCoordinatorResponse

FIND: MessageRequest[FindCoordinatorResponse] = MessageRequest(ApiKey.FIND_COORDINATOR, {"key": "group", "coordinator_keys": ["group"]})


def answer(correlation_id: int, version: int, *, api_key: int = ApiKey.FIND_COORDINATOR) -> memoryview:
    reply = {"node_id": correlation_id, "host": "h", "port": 1, "error_code": 0, "error_message": None, "coordinators": []}
    return memoryview(encode_response(api_key, version, correlation_id=correlation_id, reply=reply))[4:]


def conversation(**ranges: tuple[int, int]) -> Conversation:
    made = Conversation(client_id="tests")
    made.learn({ApiKey[name.upper()]: spoken for name, spoken in ranges.items()})
    return made


def test_a_request_goes_out_in_the_highest_version_that_both_sides_know() -> None:
    talk = conversation(find_coordinator=(0, 2))
    _, pieces = talk.ask(FIND)
    frame = b"".join(pieces)
    assert read_size(frame) == len(frame) - 4
    header = read_request_header(memoryview(frame)[4:])
    assert (header.api_key, header.api_version, header.client_id) == (ApiKey.FIND_COORDINATOR, 2, "tests")
    assert decode_request(ApiKey.FIND_COORDINATOR, 2, body=frame, start=4 + header.body_start).key == "group"


@pytest.mark.parametrize("spoken", [(7, 9), None])
def test_a_broker_that_speaks_no_version_of_ours_is_an_error_before_anything_is_sent(spoken: tuple[int, int] | None) -> None:
    talk = conversation(**({"find_coordinator": spoken} if spoken else {}))
    with pytest.raises(UnsupportedVersion, match="FindCoordinator"):
        talk.ask(FIND)
    assert talk.unanswered == 0


def test_answers_belong_to_the_requests_in_their_order() -> None:
    talk = conversation(find_coordinator=(0, 2))
    first, second = talk.ask(FIND)[0], talk.ask(FIND)[0]
    assert talk.unanswered == 2
    assert talk.hear(answer(first.correlation_id, 2)) is first
    assert not second.is_answered
    talk.hear(answer(second.correlation_id, 2))
    assert (first.answer().node_id, second.answer().node_id) == (first.correlation_id, second.correlation_id)
    assert talk.unanswered == 0


def test_an_answer_to_another_request_than_the_first_is_malformed() -> None:
    talk = conversation(find_coordinator=(0, 2))
    talk.ask(FIND)
    second = talk.ask(FIND)[0]
    with pytest.raises(MalformedFrame, match="was due"):
        talk.hear(answer(second.correlation_id, 2))


def test_an_answer_without_a_request_is_malformed() -> None:
    with pytest.raises(MalformedFrame, match="no request"):
        conversation().hear(answer(1, 2))


def test_nothing_is_awaited_for_a_produce_without_acknowledgement() -> None:
    talk = conversation(produce=(0, 13), find_coordinator=(0, 4))
    pending, _ = talk.ask(ProduceRequest([BatchFor("clicks", 0, b"")], acks=0))
    assert pending.version == 9
    find = talk.ask(FIND)[0]
    assert talk.hear(answer(find.correlation_id, 4)) is find


def test_the_body_of_a_flexible_answer_begins_after_the_tags_of_its_header() -> None:
    talk = conversation(produce=(0, 13))
    pending, _ = talk.ask(ProduceRequest([BatchFor("clicks", 0, b"")]))
    body = b"\x01" + b"\x00\x00\x00\x07" + b"\x00"
    talk.hear(memoryview(frame_response(ApiKey.PRODUCE, 9, correlation_id=pending.correlation_id, body=body))[4:])
    assert pending.answer() == (7, [])


def test_a_request_without_a_body_has_no_empty_piece() -> None:
    _, pieces = conversation().ask(ApiVersionsRequest(), version=0)
    assert len(pieces) == 1
