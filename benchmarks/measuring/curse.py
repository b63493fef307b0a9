"""The largest of many noisy figures, and a baseline of another day: what both do to a reported gain."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from autotune.domain.measurement import Comparison, Estimate, Measurement
from autotune.domain.workload import LevelPlan
from autotune.scoring import compare, measure
from benchmarks.measuring.protocols import MIN_REQUESTS, SPEEDUP
from benchmarks.measuring.published import BASELINE, REQUESTS, Server
from benchmarks.measuring.virtual import TUNED, Noise, VirtualNode

LEVEL = 10
TOKENS = 200
CANDIDATES = 40
NOISE = Noise(relative=0.035)
"""With it a cell of REQUESTS requests scatters by about 2 %; how much exactly is measured and reported."""

EXPECTATION_BURSTS = 20


@dataclass(frozen=True)
class Different:
    """One value a replay. claimed, true: gain of the best of 40 different servers over the baseline, as first measured
    and as the protocol would show it without noise; regret: what the picked one lacks to the best. remeasured: the
    gain of the same two, launched afresh and measured by this tool's window, over the true one. covered: replays in
    which the interval of that holds the truth."""

    claimed: list[float]
    true: list[float]
    regret: list[float]
    remeasured: list[float]
    covered: int


@dataclass(frozen=True)
class Stale:
    """Gain of a candidate: stale, over a baseline of another day; fresh, over one of the same study, with how often
    this tool says what. One value a replay; the true ones are without noise."""

    stale: list[float]
    fresh: list[float]
    verdicts: dict[str, int]
    stale_true: float
    fresh_true: float


@dataclass(frozen=True)
class Curse:
    """Shares: 0.01 is 1 %. cell_scatter: of one cell. equal: what the best of 40 equal servers shows over what each
    of them has, one value a replay."""

    cell_scatter: float
    equal: list[float]
    different: Different
    stale: Stale


def run(path: Path, replays: int) -> Curse:
    """Reads `path` if it holds as many replays."""
    if path.exists():
        data = json.loads(path.read_text(encoding="utf-8"))
        if len(data["equal"]) == replays:
            different, stale = Different(**data["different"]), Stale(**data["stale"])
            return Curse(data["cell_scatter"], data["equal"], different, stale)
    cells = [_cell(BASELINE.node(seed, NOISE)) for seed in range(100_000, 100_000 + replays)]
    scatter = statistics.stdev(cells) / statistics.mean(cells)
    found = Curse(scatter, _equal(replays), _different(replays), _stale(replays))
    path.write_text(json.dumps(asdict(found)), encoding="utf-8")
    return found


def _cell(node: VirtualNode) -> float:
    return node.burst(LEVEL, REQUESTS, TOKENS).throughput


def _equal(replays: int) -> list[float]:
    """Every candidate is the baseline: whatever the best of them has more is noise."""
    expected = _cell(BASELINE.node(0, Noise(relative=0.0)))
    overstated = []
    for replay in range(replays):
        seeds = range(1_000_000 + replay * CANDIDATES, 1_000_000 + (replay + 1) * CANDIDATES)
        overstated.append(max(_cell(BASELINE.node(seed, NOISE)) for seed in seeds) / expected - 1.0)
    return overstated


def _different(replays: int) -> Different:
    servers, untuned = candidates(), replace(BASELINE, environment={})
    expected, baseline = [_expectation(server) for server in servers], _expectation(untuned)
    steady, steady_baseline = [_steady(server) for server in servers], _steady(untuned)
    found = Different([], [], [], [], 0)
    covered = 0
    for replay in range(replays):
        seed = 10_000_000 + replay * 1000
        shown = [_cell(server.node(seed + place, NOISE)) for place, server in enumerate(servers)]
        best = max(range(len(servers)), key=shown.__getitem__)
        found.claimed.append(shown[best] / _cell(untuned.node(seed + 900, NOISE)) - 1.0)
        found.true.append(expected[best] / baseline - 1.0)
        found.regret.append(1.0 - expected[best] / max(expected))
        again = _compared(servers[best], untuned, seed + 901)
        really = steady[best] / steady_baseline
        found.remeasured.append(again.ratio.value / really - 1.0)
        covered += _holds(again.ratio, really)
    return replace(found, covered=covered)


def _compared(candidate: Server, baseline: Server, seed: int, level: int = LEVEL, tokens: int = TOKENS) -> Comparison:
    sides = [_window(server, seed + place, level, tokens) for place, server in enumerate((candidate, baseline))]
    found = compare(sides[0], sides[1], SPEEDUP, {level: 1.0})
    if found is None:
        raise ValueError(f"nothing to compare at level {level}")
    return found


def _holds(estimate: Estimate, value: float) -> bool:
    return estimate.low is not None and estimate.high is not None and estimate.low <= value <= estimate.high


def _window(server: Server, seed: int, level: int, tokens: int) -> list[Measurement]:
    return [measure(server.node(seed, NOISE).level(LevelPlan(level, max(5 * level, MIN_REQUESTS)), tokens))]


def _expectation(server: Server, level: int = LEVEL, tokens: int = TOKENS) -> float:
    """Of a cell, without noise; over several sets of prompts where it speculates."""
    node = server.node(0, Noise(relative=0.0))
    bursts = EXPECTATION_BURSTS if node.plan.tree else 1
    return statistics.mean(node.burst(level, REQUESTS, tokens).throughput for _ in range(bursts))


def _steady(server: Server) -> float:
    return server.node(0, Noise(relative=0.0)).truth(LEVEL, TOKENS)


def candidates() -> list[Server]:
    """CANDIDATES different servers of a space like search_spaces/eagle3.yaml, drawn once."""
    rng = random.Random(40)
    found: dict[tuple[object, ...], Server] = {}
    while len(found) < CANDIDATES:
        server = _drawn(rng)
        found[(server.arguments, tuple(server.environment.items()))] = server
    return list(found.values())


def _drawn(rng: random.Random) -> Server:
    arguments = ["--tp-size", "8", "--disable-custom-all-reduce", "--max-running-requests", "256"]
    arguments += ["--cuda-graph-max-bs", rng.choice(("128", "256", "512"))]
    arguments += ["--attention-backend", rng.choice(("flashinfer", "triton"))]
    environment = {name: value for name, value in TUNED.items() if rng.random() < 0.5}
    if rng.random() < 0.6:
        topk, steps = rng.choice((1, 2, 4)), rng.choice((1, 2, 3, 5))
        most = 1 + topk + (steps - 1) * topk**2
        tokens = steps + 1 if topk == 1 else rng.choice([n for n in (2, 4, 8, 16) if n <= most])
        arguments += ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "d"]
        arguments += ["--speculative-num-steps", str(steps), "--speculative-eagle-topk", str(topk)]
        arguments += ["--speculative-num-draft-tokens", str(tokens)]
        if topk == 1 and rng.random() < 0.5:
            environment["SGLANG_ENABLE_SPEC_V2"] = "1"
    return Server("candidate", tuple(arguments), environment, TOKENS, {})


def _stale(replays: int) -> Stale:
    """A chain of two steps on the v1 worker, without any NCCL setting, in single stream, as it was compared first with
    a baseline of a day on which NCCL was tuned, and then with one of the same day."""
    plain = tuple(word for word in BASELINE.arguments if word != "--enable-flashinfer-allreduce-fusion")
    draft = ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "d")
    chain = ("--speculative-num-steps", "2", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "3")
    candidate = Server("chain v1", (*plain, *draft, *chain), {}, 512, {})
    tuned = Server("tuned baseline", plain, TUNED, 512, {})
    untuned = Server("untuned baseline", plain, {}, 512, {})
    true = [server.node(0, Noise(relative=0.0)).truth(1, 512) for server in (candidate, tuned, untuned)]
    found = Stale([], [], dict.fromkeys(Comparison.VERDICTS, 0), true[0] / true[1] - 1.0, true[0] / true[2] - 1.0)
    for replay in range(replays):
        seed = 100_000_000 + 10 * replay
        shown = [server.node(seed, NOISE).burst(1, REQUESTS, 512).throughput for server in (candidate, tuned)]
        found.stale.append(shown[0] / shown[1] - 1.0)
        again = _compared(candidate, untuned, seed + 2, 1, 512)
        found.fresh.append(again.ratio.value - 1.0)
        found.verdicts[again.verdict] += 1
    return found


def shares(values: Sequence[float]) -> tuple[float, float, float]:
    """5th percentile, median, 95th percentile."""
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return cuts[0], statistics.median(values), cuts[-1]
