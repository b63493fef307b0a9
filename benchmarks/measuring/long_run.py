"""The truth of a level: what an endless measurement would show, without noise, drift and client.

The simulated node's own `closed_loop_throughput` is not used, for two reasons. It is good to 0.5 % only. And it starts
all requests at once: with equal lengths they then end and start together for ever, and no newcomer ever waits for a
step in progress, as nearly every one does once the ages are spread. That is worth one step a request, 0.8 % at 128
tokens. Here the ages are spread as the load client spreads them.
"""

from __future__ import annotations

import itertools
import random

from autotune.load.generator import spread_tokens
from autotune.simulated_node.acceptance import CLASSES, reach_of
from autotune.simulated_node.latency import StepModel
from autotune.simulated_node.nodes import NodeDescription
from autotune.simulated_node.plan import ServingPlan
from autotune.simulated_node.scheduler import Request, Scheduler

SETTLING_ROUNDS = 3
PLAIN_ROUNDS = 8
SPECULATING_TOKENS = 600_000
"""The lengths that a verify pass accepts scatter by less than half of their mean: over so many tokens, 0.1 %."""

_known: dict[tuple[object, ...], float] = {}


def long_run_throughput(
    node: NodeDescription, plan: ServingPlan, concurrency: int, max_tokens: int, prompt_tokens: int
) -> float:
    """Output tokens per node second. Takes up to a second; the second time, nothing."""
    key = (repr(node), repr(plan), concurrency, max_tokens, prompt_tokens)
    if key not in _known:
        _known[key] = _run(node, plan, concurrency, max_tokens, prompt_tokens)
    return _known[key]


def _run(node: NodeDescription, plan: ServingPlan, concurrency: int, max_tokens: int, prompt_tokens: int) -> float:
    scheduler = Scheduler(plan, StepModel(node, plan), random.Random(0))
    tree = plan.tree
    reaches = [reach_of(node.acceptance, tree, index) for index in range(CLASSES)] if tree else [()]
    numbers = itertools.count()

    def send(limit: int) -> None:
        number = next(numbers)
        reach = reaches[number * 7 % len(reaches)]
        request = Request(str(number), prompt_key=number, prompt_tokens=prompt_tokens, limit=limit, reach=reach)
        scheduler.submit(request, scheduler.now_s)

    def run(completions: int) -> tuple[float, int]:
        while completions > 0:
            end_s = scheduler.next_step_end_s
            if end_s is None:
                raise ValueError(f"the node stopped by itself: {scheduler.failure}")
            for _request in scheduler.advance(end_s):
                completions -= 1
                send(max_tokens)
        return scheduler.now_s, scheduler.totals.generated

    for slot in range(concurrency):
        send(spread_tokens(max_tokens, (slot + 1) / concurrency))
    rounds = PLAIN_ROUNDS if tree is None else max(PLAIN_ROUNDS, -(-SPECULATING_TOKENS // (concurrency * max_tokens)))
    start_s, before = run(SETTLING_ROUNDS * concurrency)
    end_s, after = run(rounds * concurrency)
    return (after - before) / (end_s - start_s)
