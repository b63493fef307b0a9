"""The rules as a table for docs/engines.md."""

from __future__ import annotations

from autotune.engines.dialect.flag_table import Release
from autotune.engines.dialect.problems import all_rules
from autotune.engines.dialect.rules import Rule

BEGIN, END = "<!-- rules: written by scripts/rules -->", "<!-- end of rules -->"


def rules_table() -> str:
    """Markdown, one row a rule, in the order in which they are asked."""
    rows = ["| rule | what it says | versions | holds | source |", "|---|---|---|---|---|"]
    rows += [
        f"| `{rule.id}` | {rule.text} | {_versions(rule)} | {_kind(rule)} | {rule.source} |" for rule in all_rules()
    ]
    return "\n".join(rows)


def put_into(page: str) -> str:
    """`page` with the table between its marks. Raises ValueError where they are missing."""
    before, begin, rest = page.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page must hold {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{rules_table()}\n{END}{after}"


def _versions(rule: Rule) -> str:
    since, until = _dotted(rule.since), _dotted(rule.until)
    if since and until:
        return since if since == until else f"{since} to {until}"
    return f"from {since}" if since else f"up to {until}" if until else "all"


def _dotted(release: Release) -> str:
    return ".".join(map(str, release)) if len(release) == 3 else ""


def _kind(rule: Rule) -> str:
    words = ["refused" if rule.refuses else "remark"]
    words += ["borne in a baseline"] if rule.bearable else []
    words += ["by hardware"] if rule.hardware is not None else []
    return ", ".join(words)
