"""How much strictness one request can hold: providers count tools, optional members and unions over all of them."""

from dataclasses import dataclass

from agenttool.records import JsonObject
from agenttool.schema.traverse import members, subschemas


@dataclass(slots=True)
class StrictBudget:
    """What is left; none means that there is no limit."""

    tools: int | None
    optionals: int | None
    unions: int | None

    def take(self, schema: JsonObject) -> bool:
        """Take what a strict schema costs, if it is left, and tell whether it was."""
        parts = list(subschemas(schema))
        optionals = sum(_optionals(each) for each in parts)
        unions = sum("anyOf" in each or isinstance(each.get("type"), list) for each in parts)
        left = (_less(self.tools, 1), _less(self.optionals, optionals), _less(self.unions, unions))
        if any(each is not None and each < 0 for each in left):
            return False
        self.tools, self.optionals, self.unions = left
        return True


def _less(left: int | None, cost: int) -> int | None:
    return None if left is None else left - cost


def _optionals(node: JsonObject) -> int:
    required = node.get("required")
    return len(members(node, "properties")) - (len(required) if isinstance(required, list) else 0)
