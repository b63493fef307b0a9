"""Do the intervals hold the truth as often as they say, is the estimate unbiased, and what does it cost in node time?

    python -m benchmarks.measuring.coverage --out coverage.jsonl           # 400 levels and 6,400 windows
    python -m benchmarks.measuring.coverage --out coverage.jsonl --quick   # a twentieth of it
    python -m benchmarks.measuring.coverage --out coverage.jsonl --report  # the tables of what is there

Every level is measured side by side on the same simulated node, with the same seed: by the published protocol (30
requests, tokens over the time to the last of them), with 5 requests a slot, and until the interval is 2 % and 5 %
wide to either side. The truth is the same node without noise, with prompts of the same length and all classes of
acceptance alike. What is measured is in the file, a line a level, and is not measured again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from autotune.domain.workload import LATE_PRECISION, LATE_WARM_UP, LevelPlan, Prompt
from autotune.scoring import measure
from autotune.scoring.intervals.stopping import WarmAndPrecise
from benchmarks.measuring.virtual import TUNED, Noise, VirtualNode

DRAFT = ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "draft")
CHAIN = (*DRAFT, "--speculative-num-steps", "2", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "3")
TREE = (*DRAFT, "--speculative-num-steps", "3", "--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "16")
NODES: Mapping[str, tuple[str, tuple[str, ...], Mapping[str, str]]] = {
    "8 cards": ("rtx-pro-6000-x8", ("--tp-size", "8"), TUNED),
    "8 cards, chain": ("rtx-pro-6000-x8", ("--tp-size", "8", "--max-running-requests", "128", *CHAIN), TUNED),
    "8 cards, tree": ("rtx-pro-6000-x8", ("--tp-size", "8", "--max-running-requests", "128", *TREE), TUNED),
    "1 card": ("one-card-8b", ("--mem-fraction-static", "0.85"), {}),
    "1 card, chain": ("one-card-8b", ("--mem-fraction-static", "0.85", "--max-running-requests", "64", *CHAIN), {}),
}
LEVELS = {1: 256, 4: 256, 16: 256, 64: 128}
"""Requests in flight, and the tokens of a request there: so that no level takes minutes to simulate."""
NOISES = (0.005, 0.01, 0.02)
PROMPT_TOKENS = 100
REPEATS = 20
FIXED_REQUESTS = 30
SHORT = {"1/4": 0.25, "1/2": 0.5, "1": 1.0, "3": 3.0}
"""Bounds of the window, in request lengths."""
SHORT_TOKENS, SHORT_NODES, SHORT_REPEATS = 512, ("1 card", "1 card, chain"), 200
SHORT_LEVELS: Mapping[str, tuple[int, ...]] = {"all run": (32, 40), "few end": (8,), "some wait": (64,)}
"""The KV cache of these servers holds 53 and 41 requests of 612 tokens. The guard `short_window` marks windows in which
fewer than 6 requests end, and those shorter than two requests where some wait."""
GOAL_LOW, GOAL_HIGH, GOAL_BIAS = 0.93, 0.97, 0.003


class DrawnPrompts:
    """Prompts of one length whose classes of acceptance are as good as independent."""

    def __init__(self, seed: str) -> None:
        self.position, self.capacity = 0, 10**12
        self._random = random.Random(seed)

    def take(self, count: int) -> list[Prompt]:
        self.position += count
        names = [f"{self._random.getrandbits(128):032x}" for _ in range(count)]
        return [Prompt(name, name.ljust((PROMPT_TOKENS - 1) * 4, ".")) for name in names]


def made_node(name: str, seed: int, noise: float) -> VirtualNode:
    node, arguments, environment = NODES[name]
    return VirtualNode(
        node,
        arguments,
        environment,
        seed=seed,
        noise=Noise(relative=noise),
        prompts=DrawnPrompts(f"{name} {seed}"),
        prompt_tokens=PROMPT_TOKENS,
    )


def floor(concurrency: int) -> int:
    return max(5 * concurrency, 10)


def plan_for(how: str, concurrency: int) -> LevelPlan:
    """`5 x level`, or a precision."""
    requests = floor(concurrency)
    if how == "5 x level":
        return LevelPlan(concurrency, requests, rule=WarmAndPrecise(), most_requests=LATE_WARM_UP * requests)
    return LevelPlan(
        concurrency, requests, rule=WarmAndPrecise(float(how)), most_requests=LATE_PRECISION * requests, seconds=None
    )


def measured(name: str, level: LevelPlan, tokens: int, seed: int, noise: float) -> dict[str, Any]:
    """One level on a fresh node. Errors and half-widths are relative to the truth."""
    node = made_node(name, seed, noise)
    began_s = node.scheduler.now_s
    run = node.level(level, tokens)
    truth, seen = node.truth(level.concurrency, tokens), measure(run)
    estimate = seen.output_throughput
    assert estimate is not None
    half = estimate.half_width
    return {
        "error": estimate.value / truth - 1.0,
        "half": None if half is None else half / truth,
        "window_s": seen.window_s,
        "requests": seen.requests_total,
        "late_s": run.opened_late_s,
        "node_s": node.scheduler.now_s - began_s,
    }


def by_burst(name: str, concurrency: int, tokens: int, seed: int, noise: float) -> dict[str, Any]:
    node = made_node(name, seed, noise)
    began_s = node.scheduler.now_s
    burst = node.burst(concurrency, FIXED_REQUESTS, tokens)
    return {
        "error": burst.throughput / node.truth(concurrency, tokens) - 1.0,
        "half": None,
        "node_s": node.scheduler.now_s - began_s,
    }


def one_level(name: str, concurrency: int, repeat: int) -> dict[str, Any]:
    noise, tokens = NOISES[repeat % len(NOISES)], LEVELS[concurrency]
    seed = 1000 * (1 + list(NODES).index(name)) + 100 * concurrency + repeat
    found = {"30 requests": by_burst(name, concurrency, tokens, seed, noise)}
    for how in ("5 x level", "0.05", "0.02"):
        found[how] = measured(name, plan_for(how, concurrency), tokens, seed, noise)
    return {"kind": "level", "node": name, "c": concurrency, "repeat": repeat, "noise": noise, "found": found}


def one_window(name: str, concurrency: int, bound: str, repeat: int) -> dict[str, Any]:
    """A window that is closed after so many request lengths, whatever was asked."""
    noise = NOISES[repeat % len(NOISES)]
    seed = 50_000 + 1000 * list(SHORT).index(bound) + 100 * concurrency + repeat
    request_s = SHORT_TOKENS * concurrency / made_node(name, 0, 0.0).truth(concurrency, SHORT_TOKENS)
    level = LevelPlan(concurrency, floor(concurrency), rule=WarmAndPrecise(), seconds=SHORT[bound] * request_s)
    found = measured(name, level, SHORT_TOKENS, seed, noise)
    return {"kind": "window", "node": name, "c": concurrency, "bound": bound, "repeat": repeat, "found": {"": found}}


def work(part: float) -> Iterator[tuple[str, Callable[..., dict[str, Any]], tuple[Any, ...]]]:
    for repeat in range(round(part * REPEATS)):
        for name in NODES:
            for concurrency in LEVELS:
                yield f"level {name} {concurrency} {repeat}", one_level, (name, concurrency, repeat)
    for repeat in range(round(part * SHORT_REPEATS)):
        for name in SHORT_NODES:
            for concurrency in itertools.chain.from_iterable(SHORT_LEVELS.values()):
                for bound in SHORT:
                    arguments = (name, concurrency, bound, repeat)
                    yield f"window {name} {concurrency} {bound} {repeat}", one_window, arguments


def known(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    lines = (json.loads(line) for line in path.read_text().splitlines() if line.endswith("}"))
    return {line["key"]: line for line in lines}


def run(path: Path, part: float, processes: int) -> None:
    done = known(path)
    waiting = [(key, function, arguments) for key, function, arguments in work(part) if key not in done]
    with ProcessPoolExecutor(processes) as pool, path.open("a") as file:
        futures = [(key, pool.submit(function, *arguments)) for key, function, arguments in waiting]
        for key, future in futures:
            file.write(json.dumps({"key": key, **future.result()}) + "\n")
            file.flush()


def row(found: Sequence[Mapping[str, Any]], base_s: float | None = None) -> list[str]:
    """Levels, share of the intervals that hold the truth, bias, median half-width, node seconds."""
    errors = [one["error"] for one in found]
    with_interval = [one for one in found if one["half"] is not None]
    bias = statistics.fmean(errors)
    doubt = 1.96 * statistics.stdev(errors) / math.sqrt(len(errors)) if len(errors) > 1 else math.nan
    node_s = sum(one["node_s"] for one in found)
    held = [abs(one["error"]) <= one["half"] for one in with_interval]
    return [
        f"{len(found)}",
        f"{100 * statistics.fmean(held):.1f} % of {len(held)}" if held else "no interval",
        f"{100 * bias:+.2f} % ± {100 * doubt:.2f}",
        f"{100 * statistics.quantiles([abs(e) for e in errors], n=20)[-1]:.1f} %" if len(errors) > 1 else "–",
        f"{100 * statistics.median(one['half'] for one in with_interval):.2f} %" if with_interval else "–",
        f"{node_s / len(found):.0f}" + ("" if base_s is None else f" ({node_s / len(found) / base_s:.2f})"),
    ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows)])


FIGURES = ("levels", "intervals that hold the truth", "bias", "95 % of errors below", "half-width", "node s a level")


def report(lines: Sequence[Mapping[str, Any]]) -> str:
    levels = [line for line in lines if line["kind"] == "level"]
    windows = [line for line in lines if line["kind"] == "window"]
    parts = []
    if levels:
        hows = list(levels[0]["found"])
        base = statistics.fmean(line["found"]["5 x level"]["node_s"] for line in levels)
        parts.append(
            table(("protocol", *FIGURES), [[how, *row([x["found"][how] for x in levels], base)] for how in hows])
        )
        cells = []
        for how in ("5 x level", "0.02"):
            for title, key in (("in flight", "c"), ("node", "node"), ("noise", "noise")):
                for value in dict.fromkeys(line[key] for line in levels):
                    chosen = [line["found"][how] for line in levels if line[key] == value]
                    cells.append([how, f"{title} {value}", *row(chosen)])
        parts.append(table(("protocol", "of these", *FIGURES), cells))
    if windows:
        cells = []
        for held, levels_of in SHORT_LEVELS.items():
            for node, bound in itertools.product(SHORT_NODES, SHORT):
                of = [x for x in windows if x["bound"] == bound and x["node"] == node and x["c"] in levels_of]
                if of:
                    cells.append([held, node, bound, *row([x["found"][""] for x in of])])
        parts.append(table(("requests", "node", "window / request", *FIGURES), cells))
    return "\n\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file that results are added to")
    parser.add_argument("--quick", action="store_true", help="a twentieth of it")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    if not arguments.report:
        run(arguments.out, 1 / REPEATS if arguments.quick else 1.0, arguments.processes)
    sys.stdout.write(report(list(known(arguments.out).values())) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
