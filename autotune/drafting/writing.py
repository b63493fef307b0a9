"""The space file as text: comments beside what they explain, and one block for what was left out."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable

from autotune.domain.configuration import Value, show_value
from autotune.drafting.choosing import Choice, Searched
from autotune.drafting.invocation import Left

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./+-]*")
_WORDS = frozenset({"true", "false", "null", "unset", "inf", "nan"})
_WIDTH = 118
_TREE = (
    "speculative_num_draft_tokens <= "
    "1 + speculative_eagle_topk + (speculative_num_steps - 1) * speculative_eagle_topk ** 2"
)
_TREES_OVERLAP_SINCE = 513


def write(choice: Choice, *, study: str, python: str, python_remark: str, head: Iterable[str]) -> str:
    lines = [*(_comment(line) for line in head), f"study: {scalar(study)}", ""]
    lines += _engine(choice, python, python_remark)
    lines += _parameters(choice)
    lines += _constraints(choice)
    lines += ["baseline:  # the command as it was given; trial 0, and what everything is compared with"]
    lines += _baseline(choice)
    lines += _workload(choice)
    if choice.left:
        lines += ["", "# Not taken over from the command:"]
        lines += [_comment(f"{left.what}: {left.why}", bullet=True) for left in dict.fromkeys(choice.left)]
    return "\n".join(lines) + "\n"


def scalar(value: Value) -> str:
    """Text is quoted where YAML would take it for something else."""
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
            return value
        simple = '"' in value and value.isprintable() and "'" not in value
        return f"'{value}'" if simple else json.dumps(value, ensure_ascii=False)
    return show_value(value)


def _comment(text: str, *, bullet: bool = False) -> str:
    clean = " ".join(text.split())
    first = "#   - " if bullet else "# "
    return textwrap.fill(
        clean, _WIDTH, initial_indent=first, subsequent_indent="#     " if bullet else "# ", break_long_words=False
    )


def _engine(choice: Choice, python: str, remark: str) -> list[str]:
    lines = ["engine:", "  name: sglang"]
    lines.append(f"  python: {scalar(python)}" + (f"  # {remark}" if remark else ""))
    lines.append(f"  model: {scalar(choice.model)}")
    lines.append("  args:  # every trial gets these")
    for name, value in choice.args.items():
        if name == "max-running-requests" and not choice.own_cap:
            lines.append(
                "    # Not in the command. Left to itself, the server takes 48 under speculation, and a level above"
            )
            lines.append("    # that would measure the queue; this is above every level.")
        lines.append(f"    {name}: {scalar(value)}")
    if choice.env:
        lines.append("  env:  # the server gets none of the shell's NCCL_*, SGLANG_* and CUDA_* but these")
        lines += [f"    {name}: {json.dumps(text, ensure_ascii=False)}" for name, text in choice.env.items()]
    return [*lines, ""]


def _parameters(choice: Choice) -> list[str]:
    if not choice.searched and not choice.hints:
        return ["parameters: {}", ""]
    lines = ["parameters:" if choice.searched else "parameters: {}"]
    for item in choice.searched:
        lines.append(_indented(f"{item.dimension.why} (source: {item.dimension.source})"))
        lines.append(f"  {item.dimension.name}: {_domain(item)}")
    for hint in choice.hints:
        lines.append(_indented(f"{hint.why} (source: {hint.source}):"))
        lines.append(f"  # {hint.name}")
    return [*lines, ""]


def _indented(text: str) -> str:
    return textwrap.indent(_comment(text), "  ")


def _domain(item: Searched) -> str:
    values = "[" + ", ".join(scalar(value) for value in item.values) + "]"
    extras = []
    if item.dimension.when:
        extras.append(f'when: "{item.dimension.when}"')
    if item.dimension.env:
        extras.append("env: true")
    return values if not extras else "{" + ", ".join([f"values: {values}", *extras]) + "}"


def _constraints(choice: Choice) -> list[str]:
    named = {item.dimension.name for item in choice.searched}
    lines = []
    if {"speculative_num_draft_tokens", "speculative_eagle_topk"} <= named:
        lines.append("  # A tree has no more candidates than this; a larger request dies while graphs are captured.")
        lines.append(f"  - {_TREE}")
    release = choice.facts["release"]
    if {"spec_v2", "speculative_eagle_topk"} <= named and isinstance(release, int) and release < _TREES_OVERLAP_SINCE:
        lines.append("  # Overlap takes trees since 0.5.13 only.")
        lines.append("  - not (spec_v2 == true and speculative_eagle_topk > 1)")
    return ["constraints:", *lines, ""] if lines else []


def _baseline(choice: Choice) -> list[str]:
    lines = []
    for item in choice.searched:
        if item.active:
            remark = f"  # {item.remark}" if item.remark else ""
            lines.append(f"  {item.dimension.name}: {scalar(item.own)}{remark}")
    return [*lines, ""] if lines else ["  {}", ""]


def _workload(choice: Choice) -> list[str]:
    levels = ", ".join(f"{level}: 1" for level in choice.levels)
    why = "not above the command's max-running-requests" if choice.own_cap else "requests kept in flight"
    return [
        "workload:",
        "  prompts: coding  # bundled; a JSONL file of your own traffic says more",
        "  max_tokens: 256",
        f"  concurrency: {{{levels}}}  # level: weight; {why}",
        "",
        "objective: {metric: weighted_speedup}  # ratios to the baseline, so that no level drowns the others",
        "budget: {trials: 40, hours: 10}  # whichever comes first; hours of the node",
    ]


def notes(left: Iterable[Left]) -> list[str]:
    """One line each, for a person."""
    return [f"left out: {one.what}: {one.why}" for one in dict.fromkeys(left)]
