"""A command whose arguments may begin with a minus and a digit: `group seek GROUP -24h`, which would otherwise be taken for flags."""

import re
from typing import TYPE_CHECKING

from typer.core import TyperCommand

if TYPE_CHECKING:
    from typer._click.core import Context

_SIGNED = re.compile(r"-\d\w*", re.ASCII)


class SignedArguments(TyperCommand):
    """Puts a space before such a word: whoever reads positions and numbers ignores it, and whoever looks for flags does not see one."""

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f" {word}" if _SIGNED.fullmatch(word) else word for word in args])
