#!/usr/bin/env python3
"""Fits the constants of the simulated node `rtx-pro-6000-x8` to published figures.

    python scripts/fit_simulated_node.py FIGURES.json

prints the fitted constants and a table of every figure with the model's value and its error. With --check it fits
nothing and prints the table for the constants that autotune/simulated_node/nodes.py holds.

The method: weighted least squares on logarithms (Gauss-Newton with damping), with weak priors where the figures
leave a direction open. Throughputs come from a closed formula times a correction; the correction is the ratio of the
step loop (run as the published protocol was: 30 requests a level) to the formula, and is computed anew in each round.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from autotune.simulated_node.acceptance import mean_length
from autotune.simulated_node.latency import StepModel
from autotune.simulated_node.nodes import RTX_PRO_6000_X8, NodeDescription
from autotune.simulated_node.plan import ServingPlan
from autotune.simulated_node.resolution import resolve
from autotune.simulated_node.truth import burst_throughput

PROMPT_TOKENS = 100  # the published prompts are not given; a short coding prompt
REQUESTS = 30  # of the published protocol, at every level
NCCL = {"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring", "NCCL_P2P_LEVEL": "SYS"}
BASE = ["--model-path", "m", "--tp", "8", "--trust-remote-code", "--cuda-graph-max-bs", "128"]
BASE += ["--disable-custom-all-reduce", "--attention-backend", "flashinfer"]
FUSION = ["--enable-flashinfer-allreduce-fusion"]


def _drafting(steps: int, topk: int, tokens: int) -> list[str]:
    flags = f"--speculative-num-steps {steps} --speculative-eagle-topk {topk} --speculative-num-draft-tokens {tokens}"
    return ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "d", *flags.split()]


PLANS: Mapping[str, ServingPlan] = {
    name: resolve(RTX_PRO_6000_X8, [*BASE, *flags], environment).plan
    for name, (flags, environment) in {
        "baseline": (FUSION, NCCL),
        "topk4_v1": ([*FUSION, *_drafting(2, 4, 16)], NCCL),
        "topk1_v2": ([*FUSION, *_drafting(2, 1, 3)], {**NCCL, "SGLANG_ENABLE_SPEC_V2": "True"}),
        "old_untuned": ([], {}),
        "old_tuned": ([], NCCL),
        "old_tuned_512": (["--cuda-graph-max-bs", "512"], NCCL),
        "chain5_untuned": (_drafting(5, 1, 6), {}),
        "chain2_untuned": (_drafting(2, 1, 3), {}),
        "chain2_tuned": (_drafting(2, 1, 3), NCCL),
        "chain2_fusion": ([*FUSION, *_drafting(2, 1, 3)], NCCL),
    }.items()
}


@dataclass(frozen=True)
class Figure:
    """`tolerance`: relative standard deviation in the fit; `load`: (plan, level, tokens) of a throughput."""

    name: str
    published: float
    tolerance: float
    load: tuple[str, int, int] | None = None
    value: Callable[[NodeDescription], float] | None = None


def figures_of(data: Mapping[str, Any]) -> list[Figure]:
    found = []
    table = data["throughput_tok_s"]
    rows = {"baseline_no_speculation": ("baseline", 512), "eagle3_topk4_v1": ("topk4_v1", 512)}
    rows["eagle3_topk1_v2_overlap"] = ("topk1_v2", 200)
    for row, (plan, tokens) in rows.items():
        for level, published in zip(table["concurrency"], table[row], strict=True):
            tolerance = 0.06 if level >= REQUESTS else 0.02
            found.append(Figure(f"{row}, C={level}, tok/s", published, tolerance, (plan, min(level, REQUESTS), tokens)))
    one = data["single_stream"]
    verify = one["verify_ms_3_tokens"]
    streams = {
        "baseline_without_nccl_settings_tok_s": "old_untuned",
        "baseline_with_NCCL_PROTO_LL_ALGO_Ring_P2P_LEVEL_SYS_tok_s": "old_tuned",
        "eagle3_5_steps_without_nccl_settings_tok_s": "chain5_untuned",
        "eagle3_2_steps_without_nccl_settings_tok_s": "chain2_untuned",
        "eagle3_2_steps_with_nccl_settings_tok_s": "chain2_tuned",
    }
    found += [Figure(name, one[name], 0.02, (plan, 1, 512)) for name, plan in streams.items()]
    after = one["eagle3_before_and_after_fusion_symm_mem_cuda13_tok_s"][1]
    found += [
        Figure("eagle3 after fusion (2 steps, v1 assumed), tok/s", after, 0.05, ("chain2_fusion", 1, 512)),
        Figure(
            "verify, 3 tokens, no NCCL settings, ms",
            verify["without_nccl_settings"],
            0.03,
            None,
            _verify("chain2_untuned"),
        ),
        Figure("verify, 3 tokens, NCCL settings, ms", verify["with"], 0.03, None, _verify("chain2_tuned")),
        Figure(
            "verify, 6 tokens, no NCCL settings, ms",
            one["verify_ms_6_tokens_without_nccl_settings"],
            0.03,
            None,
            _verify("chain5_untuned"),
        ),
        Figure("share of the cycle in verify (2 steps)", one["share_of_cycle_in_verify"], 0.01, None, _verify_share),
        Figure(
            "gain of graph ceiling 128 over 512, C=1", 1 + one["cuda_graph_max_bs_512_to_128_gain"], 0.005, None, _gain
        ),
        Figure("accept rate, 2 steps", one["accept_rate_after_hidden_state_fix"][1], 0.05, None, _accept_rate),
    ]
    return found


def _verify(plan: str) -> Callable[[NodeDescription], float]:
    return lambda node: StepModel(node, PLANS[plan]).verify_ms(1)


def _verify_share(node: NodeDescription) -> float:
    model = StepModel(node, PLANS["chain2_untuned"])
    return model.verify_ms(1) / (model.decode_s(1, 0) * 1e3)


def _gain(node: NodeDescription) -> float:
    return StepModel(node, PLANS["old_tuned_512"]).forward_ms(1) / StepModel(node, PLANS["old_tuned"]).forward_ms(1)


def _accept_rate(node: NodeDescription) -> float:
    """Correct drafts over proposed drafts."""
    tree = PLANS["chain2_tuned"].tree
    return (mean_length(node.acceptance, tree) - 1) / 2 if tree else math.nan


def formula(node: NodeDescription, load: tuple[str, int, int]) -> float:
    """Steady closed loop: a request's life is its own steps plus everybody's prefill."""
    name, level, tokens = load
    plan = PLANS[name]
    model = StepModel(node, plan)
    step = model.decode_s(level, int(level * (PROMPT_TOKENS + tokens / 2)))
    steps = (tokens - 1) / (mean_length(node.acceptance, plan.tree) if plan.tree else 1.0)
    return level * tokens / (steps * step + level * model.prefill_s(PROMPT_TOKENS))


def protocol(node: NodeDescription, load: tuple[str, int, int]) -> float:
    name, level, tokens = load
    return burst_throughput(node, PLANS[name], level, tokens, PROMPT_TOKENS, REQUESTS)


# name: (section, start, prior's relative standard deviation, or None)
PARAMETERS: dict[str, tuple[str, float, float | None]] = {
    "fixed_ms": ("step", 7.4, None),
    "allreduce_ms": ("step", 2.0, 0.3),
    "allreduce_exponent": ("step", 0.36, 0.3),
    "expert_ms": ("step", 0.17, None),
    "token_ms": ("step", 0.05, 1.0),
    "untuned_factor": ("step", 3.3, None),
    "fusion_saving": ("step", 0.2, None),
    "expert_overlap": ("step", 0.6, 0.5),
    "graph_excess": ("step", 0.09, None),
    "verify_v1_ms": ("speculation", 4.0, None),
    "verify_v2_ms": ("speculation", 8.0, None),
    "draft_step_ms": ("speculation", 0.27, 0.5),
    "v1_token_ms": ("speculation", 0.2, None),
    "first": ("acceptance", 0.6, 0.1),
    "depth_decay": ("acceptance", 0.85, 0.1),
    "sibling_exponent": ("acceptance", 0.7, 0.3),
}
CEILINGS = {"first": 0.95, "depth_decay": 1.0, "expert_overlap": 1.0, "fusion_saving": 0.9}


def node_with(logarithms: np.ndarray) -> NodeDescription:
    changes: dict[str, dict[str, float]] = {"step": {}, "speculation": {}, "acceptance": {}}
    for (name, (section, _, _)), logarithm in zip(PARAMETERS.items(), logarithms, strict=True):
        changes[section][name] = min(math.exp(logarithm), CEILINGS.get(name, math.inf))
    node = RTX_PRO_6000_X8
    return replace(
        node,
        step=replace(node.step, **changes["step"]),
        speculation=replace(node.speculation, **changes["speculation"]),
        acceptance=replace(node.acceptance, **changes["acceptance"]),
    )


def residuals(logarithms: np.ndarray, figures: list[Figure], corrections: Mapping[Any, float]) -> np.ndarray:
    node = node_with(logarithms)
    found = []
    for figure in figures:
        if figure.load is not None:
            value = formula(node, figure.load) * corrections[figure.load]
        else:
            value = figure.value(node) if figure.value else math.nan
        found.append(math.log(value / figure.published) / figure.tolerance)
    for (_, start, prior), logarithm in zip(PARAMETERS.values(), logarithms, strict=True):
        if prior is not None:
            found.append((logarithm - math.log(start)) / prior)
    return np.array(found)


def fit(figures: list[Figure], rounds: int = 5) -> NodeDescription:
    point = np.log([start for _, start, _ in PARAMETERS.values()])
    for _ in range(rounds):
        node = node_with(point)
        loads = {figure.load for figure in figures if figure.load is not None}
        corrections = {load: protocol(node, load) / formula(node, load) for load in loads}
        point = _least_squares(lambda at, fixed=corrections: residuals(at, figures, fixed), point)
    return node_with(point)


def _least_squares(function: Callable[[np.ndarray], np.ndarray], point: np.ndarray) -> np.ndarray:
    damping, current = 1e-2, function(point)
    for _ in range(60):
        columns = []
        for index in range(len(point)):
            moved = point.copy()
            moved[index] += 1e-4
            columns.append((function(moved) - current) / 1e-4)
        jacobian = np.array(columns).T
        normal = jacobian.T @ jacobian
        step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), -jacobian.T @ current)
        moved = point + np.clip(step, -0.3, 0.3)
        trial = function(moved)
        if trial @ trial < current @ current:
            settled = current @ current - trial @ trial < 1e-7
            point, current, damping = moved, trial, max(damping / 4, 1e-9)
            if settled:
                break
        else:
            damping *= 6
    return point


def rows_of(node: NodeDescription, data: Mapping[str, Any]) -> list[tuple[str, float, float | None]]:
    """(figure, published, model), every figure of the file; None where the model has no such state."""
    memo: dict[Any, float] = {}
    rows: list[tuple[str, float, float | None]] = []
    for figure in figures_of(data):
        if figure.load is not None:
            if figure.load not in memo:
                memo[figure.load] = protocol(node, figure.load)
            rows.append((figure.name, figure.published, memo[figure.load]))
        else:
            rows.append((figure.name, figure.published, figure.value(node) if figure.value else None))
    for level, key in ((1, "baseline_c1_avg_p50_p99"), (2, "baseline_c2_avg_p50_p99")):
        for name, published in zip(("avg", "p50", "p99"), data["latency_s"][key], strict=True):
            value = level * 512 / memo[("baseline", level, 512)]
            rows.append((f"baseline latency, C={level}, {name}, s", published, value))
    one = data["single_stream"]
    rows.append(("eagle3 before fusion, tok/s", one["eagle3_before_and_after_fusion_symm_mem_cuda13_tok_s"][0], None))
    rows.append(("accept rate before the draft's fix", one["accept_rate_after_hidden_state_fix"][0], None))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="Fits the simulated node to published figures.")
    parser.add_argument("figures", type=Path, help="JSON file with the published figures")
    parser.add_argument("--check", action="store_true", help="do not fit; show the errors of the constants in use")
    options = parser.parse_args()
    data = json.loads(options.figures.read_text(encoding="utf-8"))
    node = RTX_PRO_6000_X8 if options.check else fit(figures_of(data))
    lines = [f"{name} = {getattr(getattr(node, section), name):.4g}" for name, (section, _, _) in PARAMETERS.items()]
    lines += ["", "| figure | published | model | error |", "| --- | --- | --- | --- |"]
    for name, published, value in rows_of(node, data):
        shown = "not modelled | " if value is None else f"{value:.4g} | {100 * (value / published - 1):+.1f} %"
        lines.append(f"| {name} | {published:g} | {shown} |")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
