"""What the server says of itself: its names, its resolved arguments, and how those differ from what was asked."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from autotune.domain.secrets import is_secret
from autotune.domain.trial import Difference, LaunchCommand, ResolvedArguments
from autotune.engines.dialect.flag_table import FlagTable, Release, known_releases, release_of, table_for
from autotune.engines.dialect.knobs import underscored

INTERNAL = "internal."
"""Prefix of what comes from the first scheduler's internal state rather than from the arguments."""

_INTERNAL_KEYS = (
    "effective_max_running_requests_per_dp",
    "avg_spec_accept_length",
    "memory_usage",
    "last_gen_throughput",
    "max_speculative_num_draft_tokens",
)
_MARKS = ("internal_states", "max_total_num_tokens", "model_path")
"""Any of these makes a JSON object an answer of server_info."""

_SECRET = re.compile(r"(^|_)(api_?key|key|password|passwd|secret|credentials?|auth_token|access_token|hf_token)(_|$)")
_NOT_KEPT = ("internal_states", "launch_command", "env_vars")
"""Kept in part, or not at all: the launch command repeats every secret of the command line."""

_UNITS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>" + "|".join(_UNITS) + ")")

_OURS = frozenset({"model_path", "model", "host", "port", "served_model_name"})
_FIELDS: dict[str, tuple[str, ...]] = {
    "cuda_graph_max_bs": ("cuda_graph_config.decode.max_bs", "cuda_graph_max_bs"),
    "cuda_graph_max_bs_decode": ("cuda_graph_config.decode.max_bs", "cuda_graph_max_bs_decode"),
    "cuda_graph_max_bs_prefill": ("cuda_graph_config.prefill.max_bs", "cuda_graph_max_bs_prefill"),
    "cuda_graph_bs_decode": ("cuda_graph_config.decode.bs", "cuda_graph_bs_decode"),
    "cuda_graph_bs_prefill": ("cuda_graph_config.prefill.bs", "cuda_graph_bs_prefill"),
    "fp8_gemm_backend": ("fp8_gemm_runner_backend", "fp8_gemm_backend"),
    "fp4_gemm_backend": ("fp4_gemm_runner_backend", "fp4_gemm_backend"),
    "elastic_ep_join_mode": ("ep_join_mode",),
    "elastic_ep_join_rank_offset": ("ep_join_rank_offset",),
}
"""Where an argument's resolved value is found, if not under its own name; the first that is there counts."""

_GRAPH_BACKENDS = {
    f"cuda_graph_{what}{suffix}": f"cuda_graph_config.{phase}.backend"
    for what in ("max_bs", "bs")
    for suffix, phase in (("", "decode"), ("_decode", "decode"), ("_prefill", "prefill"))
}
_VOLATILE = frozenset({"random_seed", "max_total_num_tokens", "max_req_input_len", "dist_init_addr", "status"})
_VOLATILE_ENDING = re.compile(r"(^|_)(port|ports|pid|uptime|startup_time|start_time|timestamp|ipc_name)$")
"""What differs from one start of a server to the next: drawn at random, taken as it was free, or left over of the
memory. What was asked for by name is kept all the same."""

_PRETENCES = "SGLANG_SIMULATE_"
"""Variables under which a server accepts draft tokens by decree: for tests of SGLang, never for a real figure."""

_SPECULATIVE_CAP = 48
"""What every speculative server runs at once when it is not told; a study with higher levels measures this cap."""

_OVERLAP_BY_DEFAULT: Release = (0, 5, 11)
"""Since this release a speculative server overlaps scheduling unless told otherwise."""

_SPEC_V2_VARIABLE = "SGLANG_ENABLE_SPEC_V2"
_UNSET = "unset"


def served_names(body: str) -> tuple[str, ...]:
    """The ids of `/v1/models`; empty if the answer cannot be read."""
    answer = _json_object(body)
    models = answer.get("data") if answer is not None else None
    if not isinstance(models, list):
        return ()
    return tuple(str(model["id"]) for model in models if isinstance(model, dict) and "id" in model)


def resolved(body: str) -> ResolvedArguments | None:
    """Flat: nested objects by dots, lists as they are, secrets left out; None if it is no answer of server_info."""
    answer = _json_object(body)
    if answer is None or not any(mark in answer for mark in _MARKS):
        return None
    values = dict(_flatten({key: value for key, value in answer.items() if key not in _NOT_KEPT}))
    states = answer.get("internal_states")
    if isinstance(states, list) and states and isinstance(states[0], dict):
        kept = {key: states[0][key] for key in _INTERNAL_KEYS if key in states[0]}
        values.update({INTERNAL + key: value for key, value in _flatten(kept)})
    version = answer.get("version")
    return ResolvedArguments(values, version if isinstance(version, str) else None)


def request_cap(answer: ResolvedArguments) -> int | None:
    """The smaller of what was resolved for the server and what its schedulers really allow, over all of them."""
    values = answer.values
    total = values.get("max_running_requests")
    each = values.get(INTERNAL + "effective_max_running_requests_per_dp")
    replicas = values.get("dp_size")
    caps = [total] if isinstance(total, int) else []
    if isinstance(each, int):
        caps.append(each * (replicas if isinstance(replicas, int) and replicas > 0 else 1))
    return min(caps) if caps else None


def differences(command: LaunchCommand, answer: ResolvedArguments) -> tuple[Difference, ...]:
    """What was asked in argv and is otherwise on the server, and what was not asked and matters.

    An argument that the server does not report is passed over: nothing is known of it.
    """
    table = table_for(release_of(answer.version or "") or known_releases()[-1])
    asked = {underscored(table.main(flag)): words for flag, words in _flags(command.argv)}
    found = []
    for name, words in asked.items():
        if name in _OURS:
            continue
        known, value = _lookup(name, table, answer.values)
        backend = answer.values.get(_GRAPH_BACKENDS.get(name, ""))
        if backend == "disabled":
            found.append(Difference(name, " ".join(words), "graphs disabled"))
        elif known and not _same(words, value):
            found.append(Difference(name, " ".join(words) or "true", _show(value)))
    return (*found, *_unasked(command, asked, answer))


def resolved_identity(command: LaunchCommand, answer: ResolvedArguments) -> str:
    """16 hexadecimal digits, the same for two launches exactly if their servers run with the same.

    Of: the program, the resolved arguments without what every start has of its own, the arguments that the server
    does not report (as they were asked), and the environment that the space chose. Errs towards telling apart.
    """
    table = table_for(release_of(answer.version or "") or known_releases()[-1])
    words = dict(_asked_words(command, table))
    asked = {name for name in words if name not in _OURS}
    told_otherwise = {place for places in _FIELDS.values() if places[0] in answer.values for place in places[1:]}
    told_otherwise |= {name for name, places in _FIELDS.items() if places[0] in answer.values and places[0] != name}
    values = {
        name: value
        for name, value in answer.values.items()
        if not name.startswith(INTERNAL) and name not in told_otherwise and name not in _OURS - {"model_path"}
    }
    values = {name: value for name, value in values.items() if name in asked or not _is_volatile(name)}
    if not values.get("speculative_algorithm"):  # nothing is drafted, whatever the draft's arguments say
        values = {name: value for name, value in values.items() if not name.startswith("speculative_")}
        asked = {name for name in asked if not name.startswith("speculative_")}
    unreported = {
        name: words[name]
        for name in asked
        if not _lookup(name, table, answer.values)[0] and not is_secret(name, " ".join(words[name]))
    }
    program = list(itertools.takewhile(lambda word: not word.startswith("--"), command.argv))
    chosen = {name: value for name, value in command.chosen.items() if not is_secret(name, value)}
    everything = {
        "program": program,
        "version": answer.version,
        "resolved": values,
        "asked": unreported,
        "chosen": chosen,
    }
    text = json.dumps(everything, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def pretences(command: LaunchCommand) -> tuple[str, ...]:
    """What the chosen environment makes the server pretend: `SGLANG_SIMULATE_ACC_LEN=2.0`."""
    return tuple(f"{name}={value}" for name, value in sorted(command.chosen.items()) if name.startswith(_PRETENCES))


def _is_volatile(name: str) -> bool:
    """Also where it is an object of such things: `startup_time.load_weight`."""
    return name in _VOLATILE or any(_VOLATILE_ENDING.search(part) for part in name.split("."))


def _asked_words(command: LaunchCommand, table: FlagTable) -> Iterator[tuple[str, tuple[str, ...]]]:
    for flag, words in _flags(command.argv):
        name, joined, attached = flag.partition("=")
        yield underscored(table.main(name)), (attached, *words) if joined else words


def _unasked(
    command: LaunchCommand, asked: Mapping[str, tuple[str, ...]], answer: ResolvedArguments
) -> Iterator[Difference]:
    """Rewrites of speculative servers that are silent and change what is measured."""
    values = answer.values
    if not values.get("speculative_algorithm"):
        return
    if "max_running_requests" not in asked and values.get("max_running_requests") == _SPECULATIVE_CAP:
        yield Difference("max_running_requests", _UNSET, str(_SPECULATIVE_CAP))
    if values.get("disable_overlap_schedule") is not True or "disable_overlap_schedule" in asked:
        return
    by_default = release_of(answer.version or "") >= _OVERLAP_BY_DEFAULT
    wanted = command.chosen.get(_SPEC_V2_VARIABLE)
    if wanted == "True" or (wanted is None and by_default):
        yield Difference("disable_overlap_schedule", _UNSET, "true")


def _flags(argv: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each flag with the words behind it. `-1` is a word; what stands before the first flag is the program."""
    starts = [index for index, word in enumerate(argv) if word.startswith("--")]
    for start, end in itertools.pairwise((*starts, len(argv))):
        yield argv[start], argv[start + 1 : end]


def _lookup(name: str, table: FlagTable, values: Mapping[str, Any]) -> tuple[bool, Any]:
    flag = table.flag("--" + name.replace("_", "-"))
    aliases = tuple(underscored(alias) for alias in flag.aliases) if flag is not None else ()
    for place in (*_FIELDS.get(name, ()), name, *aliases):
        if place in values:
            return True, values[place]
    return False, None


def _same(words: tuple[str, ...], value: Any) -> bool:
    if isinstance(value, bool) or not words:
        return (not words or words == ("true",)) if value is True else words == ("false",)
    if isinstance(value, list):
        return len(words) == len(value) and all(_same((w,), v) for w, v in zip(words, value, strict=True))
    if value is None or len(words) != 1:
        return False
    word = words[0]
    if isinstance(value, int | float):
        number = _number(word)
        return number is not None and number == float(value)
    return word.casefold() == str(value).casefold()


def _number(word: str) -> float | None:
    """`0.8`, `8192`, and the sizes that some flags take: `8k` is 8000, `8Ki` 8192."""
    found = _SIZE.fullmatch(word)
    if found is not None:
        return float(found["number"]) * _UNITS[found["unit"]]
    try:
        return float(word)
    except ValueError:
        return None


def _show(value: Any) -> str:
    if value is None:
        return _UNSET
    if isinstance(value, list):
        return " ".join(_show(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _flatten(raw: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in raw.items():
        if _SECRET.search(key.lower()) or key.startswith("_"):
            continue
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _json_object(body: str) -> Mapping[str, Any] | None:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
