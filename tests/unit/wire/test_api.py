import subprocess
import sys

import pytest
from kio.schema.index import api_key_map, schema_name_map

from codegen.kio_schema import entity_class
from millstream.wire.api import API_VERSIONS, NEVER, OWN_KEYS, ApiKey, has_flexible_response_header, is_flexible


@pytest.mark.slow
def test_the_table_of_keys_and_versions_is_kios() -> None:
    assert {key.value: key.name.lower() for key in ApiKey if key not in OWN_KEYS} == dict(api_key_map)
    for key, name in api_key_map.items():
        versions = schema_name_map[name]
        assert (API_VERSIONS[key].lowest, API_VERSIONS[key].highest) == (min(versions), max(versions)), name
        for version in versions:
            request, response = entity_class(key, version, "request"), entity_class(key, version, "response")
            assert is_flexible(key, version) is request.__flexible__ is response.__flexible__, (name, version)
            assert has_flexible_response_header(key, version) is (response.__header_schema__.__version__ == 1), (name, version)


def test_an_api_without_flexible_versions_never_has_any() -> None:
    assert API_VERSIONS[ApiKey.SASL_HANDSHAKE].first_flexible == NEVER
    assert not is_flexible(ApiKey.SASL_HANDSHAKE, 1)


def test_an_unknown_key_is_not_flexible() -> None:
    assert not is_flexible(32_000, 5)


def test_the_answer_to_api_versions_has_the_old_header_whatever_its_version() -> None:
    assert is_flexible(ApiKey.API_VERSIONS, 3)
    assert not has_flexible_response_header(ApiKey.API_VERSIONS, 3)


def test_the_wire_loads_no_compressor_until_it_is_needed() -> None:
    modules = "batch api frames produce fetch messages compression records"
    imports = "; ".join(f"import millstream.wire.{module}" for module in modules.split())
    script = f"import sys; {imports}; sys.exit(any(name.split('.')[0] in ('cramjam', 'asyncio') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
