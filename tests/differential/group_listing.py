"""What a scenario of groups asks about all of them at once."""

from collections.abc import Sequence

from tests.clients.group_requests import LIST_GROUPS
from tests.differential.scenario import Scenario

TYPES = ("classic", "Consumer", "consumer", "share", "nonsense")


class GroupListing(Scenario):
    """A scenario that can list groups."""

    def ask_for_groups(self, states: Sequence[str]) -> None:
        """ListGroups, half of the time only those in some states or of some types."""
        fields = {
            "states_filter": self.some(states) if self.chance(50) else [],
            "types_filter": self.some(TYPES) if self.chance(50) else [],
        }
        self.ask(LIST_GROUPS, fields)
