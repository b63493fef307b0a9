"""One space file against several versions, side by side, for `autotune check`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.domain.space import SpaceCount
from autotune.domain.study import StudySpec
from autotune.domain.trial import Hardware, LaunchCommand


@dataclass(frozen=True)
class VersionEntry:
    """`commands`: a name, the command that would be launched (None: refused), and why it is refused."""

    version: str
    commands: tuple[tuple[str, LaunchCommand | None, tuple[str, ...]], ...]
    counts: SpaceCount
    misfits: tuple[str, ...] = ()


def version_comparison(spec: StudySpec, entries: Sequence[VersionEntry], hardware: Hardware | None) -> str:
    """Plain text: for each named configuration the words that all versions share, once, and then each version's own;
    below, what each version refuses of the space."""
    lines = [f"study      {spec.name}", f"hardware   {_hardware(hardware)}"]
    names = list(dict.fromkeys(name for entry in entries for name, _command, _problems in entry.commands))
    for name in names:
        lines += ["", name, *_side_by_side(name, entries)]
    lines += ["", "what each version refuses of the space"]
    for entry in entries:
        counts = entry.counts
        bound = "" if counts.exact else "at least "
        lines.append(
            f"  {entry.version}: {bound}{counts.valid:,} valid of {counts.combinations:,}, "
            f"{bound}{counts.servers:,} different servers"
        )
        lines += [f"    refused {number:>7,}  {rule}" for rule, number in counts.refused.items()]
        lines += [f"    remark  {number:>7,}  {rule}" for rule, number in counts.remarked.items()]
        lines += [f"    misfit           {line}" for line in entry.misfits]
    return "\n".join(lines)


def _hardware(hardware: Hardware | None) -> str:
    if hardware is None:
        return "not known: rules that need it are silent (--gpu sm120:8:pcie)"
    words = (hardware.gpu_name, hardware.architecture, hardware.link)
    return f"{hardware.gpu_count} x {', '.join(word for word in words if word)}"


def _side_by_side(name: str, entries: Sequence[VersionEntry]) -> list[str]:
    shown = {entry.version: next(c for c in entry.commands if c[0] == name) for entry in entries}
    groups = {version: _groups(command) for version, (_name, command, _why) in shown.items() if command is not None}
    common = [group for group in next(iter(groups.values()), []) if all(group in other for other in groups.values())]
    lines = [f"  all        {' '.join(common)}"] if common else []
    for version, (_name, command, why) in shown.items():
        if command is None:
            lines += [f"  {version:<10} refused: {reason}" for reason in why]
        else:
            own = [group for group in groups[version] if group not in common]
            lines.append(f"  {version:<10} {' '.join(own) or '(nothing of its own)'}")
    return lines


def _groups(command: LaunchCommand) -> list[str]:
    """Variables, then each flag with the words behind it."""
    groups = [f"{name}={value}" for name, value in command.chosen.items()]
    for word in command.argv:
        if word.startswith("--") or not groups or not groups[-1].startswith("--"):
            groups.append(word)
        else:
            groups[-1] += f" {word}"
    return groups
