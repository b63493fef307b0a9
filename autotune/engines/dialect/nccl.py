"""What NCCL says of itself under NCCL_DEBUG=INFO, and which GPUs of a launch command talk through it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.domain.trial import LaunchCommand

PREFIX = "NCCL_"
SERVER_DEFAULTS = {"NCCL_CUMEM_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"}
"""What SGLang sets in its own process where nobody has chosen (entrypoints/engine.py)."""

_SILENT = frozenset({("NCCL_P2P_DISABLE", "0"), ("NCCL_DEBUG", "WARN"), ("NCCL_DEBUG", "VERSION")})
"""Settings that NCCL acts on and does not report (graph/paths.cc prints P2P_DISABLE only where it disables)."""
_UNREPORTED = frozenset({"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "NCCL_CONF_FILE"})

_LINE = re.compile(r"NCCL (?P<level>INFO|WARN|VERSION)\s+(?P<text>.*)")
_VERSION = re.compile(r"NCCL version (?P<version>\S+)")
_SETTING = re.compile(r"(?P<name>NCCL_[A-Z0-9_]+) set by environment to (?P<value>.*?)\.?\s*$")
_INVALID = re.compile(r"Invalid value (?P<value>\S+) for (?P<name>NCCL_[A-Z0-9_]+)")
_CHANNELS = re.compile(r"(?P<count>\d+) coll channels")
_TRANSPORT = re.compile(
    r"Channel \d+(?:/\d+)? : \d+\[\w+\] -> \d+\[\w+\](?: \[\w+\])? via "
    r"(?P<transport>P2P/direct pointer\S*|direct shared memory|\S+)"
)
_CHOICE = re.compile(
    r"(?:(?P<function>\w+): )?(?P<size>\d+) Bytes -> Algo (?P<algo>\w+) proto (?P<proto>\w+)"
    r"(?: channel\{Lo\.\.Hi\}=\{(?P<low>\d+)\.\.(?P<high>\d+)\})?"
)
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")
"""In the order of nccl_common.h: until 2.24 or so the line has their numbers."""

_RAISED = re.compile(r"nccl\w*Error|ncclInvalid\w+|DistBackendError|NCCL error|wrong sums")
_EVIDENCE_LENGTH = 500


@dataclass(frozen=True)
class Choice:
    """What NCCL took for one message size. `channels`: how many of them; None where the line does not say."""

    algorithm: str
    protocol: str
    channels: int | None = None

    def __str__(self) -> str:
        return " ".join([self.algorithm, self.protocol, *([f"x{self.channels}"] if self.channels is not None else [])])


@dataclass(frozen=True)
class NcclLog:
    """`settings` by name, as NCCL read them; `refused`: names whose value it called invalid. `transports` in the
    order of their first mention (`P2P/CUMEM`, `SHM/direct/direct`). `choices` by message size in bytes."""

    version: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()
    channels: int | None = None
    transports: tuple[str, ...] = ()
    choices: Mapping[int, Choice] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def parse(log: str) -> NcclLog:
    """Of NCCL 2.18 to 2.30. Of a communicator made twice (a rank each) the first mention counts; lines of others are
    passed over."""
    version, channels = None, None
    settings: dict[str, str] = {}
    refused: set[str] = set()
    transports: dict[str, None] = {}
    choices: dict[int, Choice] = {}
    warnings: dict[str, None] = {}
    for line in log.splitlines():
        if found := _VERSION.search(line):
            version = version or found["version"]
        said = _LINE.search(line)
        if said is None:
            continue
        text = said["text"].strip()
        if said["level"] == "WARN" and text:
            warnings.setdefault(text)
        if found := _INVALID.search(text):
            refused.add(found["name"])
        if found := _SETTING.search(text):
            settings.setdefault(found["name"], found["value"])
        elif found := _CHANNELS.search(text):
            channels = channels if channels is not None else int(found["count"])
        elif found := _TRANSPORT.search(text):
            transports.setdefault(found["transport"])
        elif (found := _CHOICE.search(text)) and found["function"] in (None, "AllReduce"):
            choices.setdefault(int(found["size"]), _choice(found))
    return NcclLog(version, settings, frozenset(refused), channels, tuple(transports), choices, tuple(warnings))


def unconfirmed(asked: Mapping[str, str], log: NcclLog) -> tuple[str, ...]:
    """A sentence for each NCCL_* of `asked` that the log does not confirm: not read, called invalid, or read as
    something else."""
    found = []
    for name, value in sorted(asked.items()):
        if not name.startswith(PREFIX) or name in _UNREPORTED or (name, value) in _SILENT:
            continue
        said = log.settings.get(name)
        if name in log.refused:
            found.append(f"{name} was set to {value}, and NCCL called that invalid")
        elif said is None:
            found.append(f"{name} was set to {value}, and NCCL did not say it read it")
        elif not _same(value, said):
            found.append(f"{name} was set to {value}, and NCCL read {said}")
    return tuple(found)


def evidence(log: str) -> str:
    """The line that explains a failed probe best: NCCL's last warning, else the error that was raised, else the last
    thing NCCL said, else the last line. Empty for an empty log."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    warned = [line for line in lines if (said := _LINE.search(line)) and said["level"] == "WARN"]
    raised = [line for line in lines if _RAISED.search(line)]
    spoken = [line for line in lines if _LINE.search(line)]
    best = warned or raised or spoken or lines
    return best[-1][-_EVIDENCE_LENGTH:] if best else ""


def assignment(variables: Mapping[str, str]) -> dict[str, str]:
    """The NCCL_* of an environment, by name."""
    return {name: variables[name] for name in sorted(variables) if name.startswith(PREFIX)}


def tensor_parallel_gpus(command: LaunchCommand) -> tuple[int, ...]:
    """Positions, among the visible GPUs, of the first tensor-parallel group; empty where it is no group of GPUs."""
    if _argument(command.argv, "--device") not in (None, "cuda"):
        return ()
    size = _number(command.argv, 1, "--tensor-parallel-size", "--tp-size", "--tp")
    first, step = _number(command.argv, 0, "--base-gpu-id"), _number(command.argv, 1, "--gpu-id-step")
    return tuple(first + step * rank for rank in range(size)) if size > 1 else ()


def _choice(found: re.Match[str]) -> Choice:
    channels = None if found["low"] is None else int(found["high"]) - int(found["low"]) + 1
    return Choice(_word(found["algo"], _ALGORITHMS), _word(found["proto"], _PROTOCOLS), channels)


def _word(said: str, words: tuple[str, ...]) -> str:
    """Names as they are, in capitals; numbers by their place."""
    if said.isdecimal():
        return words[int(said)] if int(said) < len(words) else said
    return said.upper()


def _same(asked: str, said: str) -> bool:
    try:
        return int(asked, 0) == int(said, 0)
    except ValueError:
        return asked.strip().casefold() == said.strip().casefold()


def _argument(argv: tuple[str, ...], *names: str) -> str | None:
    """The last one counts, as argparse has it."""
    value = None
    for word, following in zip(argv, (*argv[1:], ""), strict=True):
        name, joined, attached = word.partition("=")
        if name in names:
            value = attached if joined else following
    return value


def _number(argv: tuple[str, ...], default: int, *names: str) -> int:
    text = _argument(argv, *names)
    return int(text) if text is not None and text.isdecimal() else default
