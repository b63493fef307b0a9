#!/usr/bin/env python
"""How often the 95 % interval of a factor's effect holds the truth, on synthetic studies whose effects are known.

    benchmarks/effect_coverage.py --studies 300

A row for each kind of study (greedy pass, 20 random trials) and of error: share of the intervals that hold the true
effect (objective, levels), and of the studies in which an interaction is found though there is none.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from autotune.domain.configuration import Configuration, Value, show_value
from autotune.domain.explanation import Effect
from autotune.domain.measurement import Estimate, Measurement, Objective, Score
from autotune.domain.space import Parameter, SearchSpace, Values
from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.scoring import effects, evidence, interactions, settings
from autotune.scoring.student import t_quantile

TRUE: Mapping[str, Mapping[Value, float]] = {
    "a": {1: 0.0, 2: 0.05, 3: -0.03},
    "b": {"x": 0.0, "y": 0.02},
    "c": {None: 0.0, "LL": 0.08, "S": -0.02},
    "d": {32: 0.0, 64: 0.01, 128: 0.03},
}
"""Logarithms, against the baseline's value."""
SPACE = SearchSpace(tuple(Parameter(name, Values(tuple(values))) for name, values in TRUE.items()))
BASELINE = Configuration({"a": 1, "b": "x", "c": None, "d": 32})
LEVELS = {1: 1.0, 8: 1.0}
SPEEDUP = Objective("weighted_speedup")
CASES = ((0.01, 0.0, 0, 20), (0.01, 0.0, 0, 5), (0.008, 0.005, 3, 20), (0.003, 0.01, 3, 20), (0.003, 0.01, 0, 20))
"""Relative standard deviation of a window and of a launch; every how many trials the baseline is repeated (0: never);
batches behind an interval."""
RANDOM_TRIALS = 20


class Node:
    def __init__(self, seed: int, window: float, launch: float, repeat: int, batches: int) -> None:
        self.rng = random.Random(seed)
        self.window, self.launch, self.repeat, self.batches = window, launch, repeat, batches
        self.trials: list[TrialResult] = []

    def measure(self, configuration: Configuration) -> float:
        """Its score. The baseline is measured again first where that is due."""
        if self.repeat and self.trials and len(self.trials) % self.repeat == 0:
            self._launch(BASELINE)
        return self._launch(configuration)

    def greedy(self) -> None:
        best, current = self.measure(BASELINE), BASELINE
        for parameter in SPACE.parameters:
            for value in parameter.domain.grid():
                tried = current.replace(**{parameter.name: value})
                score = best if tried == current else self.measure(tried)
                if score > best:
                    best, current = score, tried

    def at_random(self) -> None:
        self.measure(BASELINE)
        for _ in range(RANDOM_TRIALS):
            drawn = {p.name: self.rng.choice(p.domain.grid()) for p in SPACE.parameters}
            self.measure(Configuration(drawn))

    def _launch(self, configuration: Configuration) -> float:
        mean = sum(TRUE[name][value] for name, value in configuration.items()) + self.rng.gauss(0, self.launch)
        logs = [mean + self.rng.gauss(0, self.window) for _level in LEVELS]
        levels = tuple(self._level(level, log) for level, log in zip(LEVELS, logs, strict=True))
        score = math.exp(sum(logs) / len(logs))
        number = len(self.trials)
        made = Score(SPEEDUP.metric, Estimate(score))
        self.trials.append(
            TrialResult(
                number, configuration, Origin.GREEDY, TrialState.COMPLETE, "", 1.0, measurements=levels, score=made
            )
        )
        return score

    def _level(self, level: int, log: float) -> Measurement:
        freedom = self.batches - 1
        spread = math.sqrt(sum(self.rng.gauss(0, 1) ** 2 for _ in range(freedom)) / freedom)
        value = 100.0 * level * math.exp(log)
        half = t_quantile(freedom) * self.window * spread * value
        return Measurement(level, 10, 10, output_throughput=Estimate(value, value - half, value + half, self.batches))


def holds(ratio: Estimate, effect: Effect) -> bool:
    values = {show_value(value): true for value, true in TRUE[effect.parameter].items()}
    truth = math.exp(values[effect.after] - values[effect.before])
    return ratio.low is not None and ratio.high is not None and ratio.low <= truth <= ratio.high


def row(kind: str, case: tuple[float, float, int, int], studies: int) -> str:
    score, levels, bias, interacting, looked_at = [], [], [], 0, 0
    for seed in range(studies):
        node = Node(seed, *case)
        node.greedy() if kind == "greedy" else node.at_random()
        known = evidence(SPACE, node.trials, settings(SPACE, BASELINE), SPEEDUP, LEVELS)
        for effect in effects(known):
            values = {show_value(value): true for value, true in TRUE[effect.parameter].items()}
            bias.append(math.log(effect.ratio.value) - values[effect.after] + values[effect.before])
            score.append(holds(effect.ratio, effect))
            levels += [holds(ratio, effect) for ratio in effect.per_level.values()]
        found, tested = interactions(known)
        interacting, looked_at = interacting + bool(found), looked_at + tested
    window, launch, repeat, batches = case
    shares = f"{100 * sum(score) / len(score):.1f} % | {100 * sum(levels) / len(levels):.1f} %"
    return (
        f"| {kind} | {100 * window:g} % | {100 * launch:g} % | {repeat or 'never'} | {batches} | {shares} "
        f"| {100 * sum(bias) / len(bias):+.3f} % | {looked_at / studies:.1f} | {100 * interacting / studies:.1f} % |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=300)
    options = parser.parse_args()
    print(  # noqa: T201
        "| trials | window | launch | baseline every | batches | objective | levels | mean bias "
        "| interactions looked at | studies that find one |\n|" + "---|" * 10
    )
    for kind in ("greedy", "random"):
        for case in CASES:
            print(row(kind, case, options.studies), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
