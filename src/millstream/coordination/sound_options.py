"""Of options that make no sense, those that do."""

from collections.abc import Callable, Mapping

from millstream.errors import InvalidConfig

OptionCheck = Callable[[Mapping[str, str]], None]


def sound_options(configs: Mapping[str, str], check: OptionCheck) -> dict[str, str]:
    """Those of the options that can be used; none, if they do not fit together."""
    found = {name: text for name, text in configs.items() if _passes(check, {name: text})}
    return found if _passes(check, found) else {}


def _passes(check: OptionCheck, configs: Mapping[str, str]) -> bool:
    try:
        check(configs)
    except InvalidConfig:
        return False
    return True
