import pytest

from millstream.zookeeper.four_letter_words import ServerStatus, answer

STATUS = ServerStatus(
    port=2181,
    last_zxid=0x100000002,
    connections=("127.0.0.1:5000",),
    received=7,
    sent=8,
    node_count=9,
    watch_count=1,
    ephemeral_count=2,
    session_count=3,
    is_online=True,
)


def test_ruok_says_whether_the_tree_can_be_written() -> None:
    assert answer(b"ruok", STATUS) == "imok"
    assert answer(b"ruok", STATUS._replace(is_online=False)) != "imok"


@pytest.mark.parametrize("word", [b"srvr", b"stat"])
def test_the_status_has_the_lines_that_monitors_parse(word: bytes) -> None:
    text = answer(word, STATUS) or ""
    for line in ("Zookeeper version: 3.9.0", "Zxid: 0x100000002", "Mode: standalone", "Node count: 9", "Connections: 1"):
        assert line in text


def test_stat_and_cons_name_the_clients() -> None:
    assert "127.0.0.1:5000" in (answer(b"stat", STATUS) or "")
    assert "127.0.0.1:5000" in (answer(b"cons", STATUS) or "")


def test_mntr_is_a_table_of_names_and_values() -> None:
    rows = dict(line.split("\t") for line in (answer(b"mntr", STATUS) or "").splitlines())
    assert (rows["zk_znode_count"], rows["zk_ephemerals_count"], rows["zk_server_state"]) == ("9", "2", "standalone")


def test_other_bytes_are_no_word() -> None:
    assert answer(b"quit", STATUS) is None
