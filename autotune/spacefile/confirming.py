"""`budget.baseline_every` and `budget.confirm`: what a study spends on being sure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from autotune.domain.confirmation import Confirm
from autotune.spacefile import fields
from autotune.spacefile.fields import Key
from autotune.spacefile.tree import Node, Refusal, Scalar, Table, nearest

AUTO, OFF = "auto", "off"
LARGEST_SHARE = 0.8
FEWEST_ROUNDS = 3


def _share(node: Node) -> float:
    share = fields.positive(node)
    if share > LARGEST_SHARE:
        raise fields.refuse(node, f"a share above 0 and of at most {LARGEST_SHARE:g}")
    return float(share)


def _rounds(node: Node) -> int:
    rounds = fields.whole_number(node)
    if rounds < FEWEST_ROUNDS:
        hint = "two launches of each do not tell how much launches differ"
        raise fields.refuse(node, f"a whole number of at least {FEWEST_ROUNDS}", hint)
    return rounds


KEYS: Mapping[str, Key] = {
    "finalists": Key(fields.count, Confirm.finalists),
    "share": Key(_share, Confirm.share),
    "rounds": Key(_rounds, Confirm.rounds),
}


def baseline_every(node: Node) -> int | str | None:
    """`auto`, a number of trials, or `unset`."""
    if isinstance(node, Scalar) and node.text == AUTO:
        return AUTO
    if isinstance(node, Scalar) and isinstance(node.value, str) and not fields.is_unset(node):
        raise fields.refuse(node, f"`{AUTO}`, a number of trials, or unset")
    found: int | None = fields.optional(fields.count)(node)
    return found


def read(node: Node) -> Confirm | None:
    """A mapping, or `off`."""
    if isinstance(node, Scalar) and node.text == OFF:
        return None
    if not isinstance(node, Table):
        raise fields.refuse(node, f"a mapping of {', '.join(KEYS)}, or `{OFF}`")
    made: dict[str, Any] = {}
    for entry in node:
        key = KEYS.get(entry.key.text)
        if key is None:
            where = entry.key.place
            raise Refusal(where, f"unknown key `{entry.key.text}` in {node.path}", hint=nearest(entry.key.text, KEYS))
        made[entry.key.text] = key.read(entry.node)
    return Confirm(**made)


def plain(confirm: Confirm | None) -> Any:
    return OFF if confirm is None else asdict(confirm)
