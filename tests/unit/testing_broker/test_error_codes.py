from kio.schema.errors import ErrorCode

from millstream.testing_broker.error_codes import ERROR_CODES


def test_every_error_has_kafkas_name_and_code() -> None:
    kafkas = {code.name.upper(): code.value for code in ErrorCode}
    assert {name: kafkas.get(name) for name in ERROR_CODES} == ERROR_CODES
