import pytest

from millstream.client.security.scram import ScramError, scram

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_exchange_of_rfc_7677() -> None:
    exchange = scram("SCRAM-SHA-256", "user", "pencil", nonce=NONCE)
    assert next(exchange) == b"n,,n=user,r=" + NONCE.encode()
    assert exchange.send(SERVER_FIRST) == CLIENT_FINAL
    with pytest.raises(StopIteration):
        exchange.send(SERVER_FINAL)


def test_commas_and_equals_signs_of_a_name_are_escaped() -> None:
    assert next(scram("SCRAM-SHA-512", "a=b,c", "x", nonce="n")) == b"n,,n=a=3Db=2Cc,r=n"


def test_every_login_has_a_nonce_of_its_own() -> None:
    assert len({next(scram("SCRAM-SHA-256", "user", "pencil")) for _ in range(5)}) == 5


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "another one"),
        (b"r=" + NONCE.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "another one"),  # a nonce without the broker's part
        (SERVER_FIRST.replace(b"4096", b"1"), "asks for '1' iterations"),
        (SERVER_FIRST.replace(b"4096", b"999999999"), "asks for '999999999' iterations"),
        (SERVER_FIRST.replace(b"4096", b"99999999999999999"), "iterations"),
        (SERVER_FIRST.replace(b"W22Z", b"!!!!"), "not base64"),
        (SERVER_FIRST.replace(b"W22Z", "Wéé".encode()), "not base64"),
        (b"", "another one"),
        (b"\xff", "not a text"),
    ],
)
def test_a_first_answer_that_cannot_be_trusted_ends_the_login(answer: bytes, problem: str) -> None:
    exchange = scram("SCRAM-SHA-256", "user", "pencil", nonce=NONCE)
    next(exchange)
    with pytest.raises(ScramError, match=problem):
        exchange.send(answer)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"e=invalid-proof", "'invalid-proof'"),
        (b"v=AAAA", "does not know the password itself"),
        (b"", "does not know the password itself"),
    ],
)
def test_a_broker_that_does_not_know_the_password_is_found_out(answer: bytes, problem: str) -> None:
    exchange = scram("SCRAM-SHA-256", "user", "pencil", nonce=NONCE)
    next(exchange)
    exchange.send(SERVER_FIRST)
    with pytest.raises(ScramError, match=problem):
        exchange.send(answer)
