"""What `--help` shows, as a person would write it.

Typer names the types of Python: `<bool>` beside a flag that takes nothing, `<list[str]>` beside one that may be repeated. Here a flag has
nothing beside it, and what may be repeated is called what each of them is. Metavars that a command gives itself stay. And Typer breaks
lines where a docstring does; here a paragraph is as wide as the terminal.
"""

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from typer.core import TyperCommand, TyperGroup

HELP_FLAGS: Final = ["-h", "--help"]
_LIST: Final = "<list["
_END_OF_LINE: Final = re.compile(r"(?<!\n)\n(?!\n)")


def write_plainly(command: "TyperGroup | TyperCommand") -> None:
    """Change what the help of this command shows, and of all below it."""
    if command.help is not None:
        command.help = _END_OF_LINE.sub(" ", command.help)
    context = command.context_class(command, help_option_names=HELP_FLAGS)
    help_flag = command.get_help_option(context)
    for parameter in [*command.params, *([help_flag] if help_flag is not None else [])]:
        if parameter.param_type_name == "argument":
            _name_argument(parameter)
        elif getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.metavar is None:
            parameter.metavar = _element(parameter, context)
    for below in getattr(command, "commands", {}).values():
        write_plainly(below)


def _element(parameter: Any, context: Any) -> str | None:
    """What each of several values is; None where Typer says it well enough."""
    shown: str = parameter.display_type(context) if hasattr(parameter, "display_type") else ""
    return f"<{shown.removeprefix(_LIST).removesuffix(']>')}>" if shown.startswith(_LIST) else None


def _name_argument(parameter: Any) -> None:
    """The metavar of an argument is its name, which says enough: its type is shown nowhere."""
    parameter.display_type_rich = lambda ctx: None  # Typer's name
