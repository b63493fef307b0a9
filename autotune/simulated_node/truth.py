"""What a long perfect measurement of a configuration would show: the same step loop without noise, drift or client."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import count

from autotune.simulated_node.acceptance import CLASSES, reach_of
from autotune.simulated_node.latency import StepModel
from autotune.simulated_node.nodes import NodeDescription, node_named
from autotune.simulated_node.plan import ServingPlan
from autotune.simulated_node.resolution import resolve
from autotune.simulated_node.scheduler import Request, Scheduler

RELATIVE_ERROR = 0.005
"""How close `steady_throughput` is to the limit of an endless run."""


def steady_throughput(
    node: NodeDescription | str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    concurrency: int,
    max_tokens: int,
    prompt_tokens: int = 100,
) -> float:
    """Output tokens per node second, closed loop at `concurrency`, every request `max_tokens` long.

    `arguments` are those of the command line, `environment` what the server would see. Raises ValueError where such a
    server would not start (AssertionError, TypeError or SystemExit where SGLang's own checks do).
    """
    described = node_named(node) if isinstance(node, str) else node
    resolved = resolve(described, arguments, environment)
    if resolved.failure is not None:
        raise ValueError(f"such a server dies while starting: {resolved.failure.error}")
    return closed_loop_throughput(described, resolved.plan, concurrency, max_tokens, prompt_tokens)


def closed_loop_throughput(
    node: NodeDescription, plan: ServingPlan, concurrency: int, max_tokens: int, prompt_tokens: int
) -> float:
    """As steady_throughput, for a plan. Takes 0.05 to 2 s of CPU, more at high levels."""
    rounds = 4 if plan.tree is None else max(6, -(-3000 // (concurrency * max(1, max_tokens // 64))))
    loop = _ClosedLoop(node, plan, concurrency, max_tokens, prompt_tokens)
    loop.run(2 * concurrency)
    start_s, start_tokens = loop.scheduler.now_s, loop.scheduler.totals.generated
    loop.run(rounds * concurrency)
    return (loop.scheduler.totals.generated - start_tokens) / (loop.scheduler.now_s - start_s)


def burst_throughput(
    node: NodeDescription,
    plan: ServingPlan,
    concurrency: int,
    max_tokens: int,
    prompt_tokens: int,
    requests: int,
    runs: int = 5,
) -> float:
    """The published protocol: `requests` in all, `concurrency` at a time, tokens over the time to the last of them.
    Mean of `runs` runs."""
    total = 0.0
    for run in range(runs):
        loop = _ClosedLoop(node, plan, min(concurrency, requests), max_tokens, prompt_tokens, seed=run)
        loop.run(requests, send=requests)
        total += loop.scheduler.totals.generated / loop.scheduler.now_s
    return total / runs


class _ClosedLoop:
    """Prompts go through the classes of acceptance evenly, so that few requests stand for all."""

    def __init__(
        self,
        node: NodeDescription,
        plan: ServingPlan,
        concurrency: int,
        max_tokens: int,
        prompt_tokens: int,
        seed: int = 0,
    ) -> None:
        self.scheduler = Scheduler(plan, StepModel(node, plan), random.Random(seed))
        tree = plan.tree
        self._reaches = [reach_of(node.acceptance, tree, index) for index in range(CLASSES)] if tree else [()]
        self._numbers = count(seed)
        self._concurrency = concurrency
        self._tokens = (prompt_tokens, max_tokens)
        self._in_flight = 0

    def run(self, completions: int, send: int | None = None) -> None:
        """Until so many more have finished; `send` limits how many requests there are in all."""
        done = sent = 0
        while done < completions:
            while self._in_flight < self._concurrency and (send is None or sent < send):
                self.scheduler.submit(self._next(), self.scheduler.now_s)
                self._in_flight += 1
                sent += 1
            end_s = self.scheduler.next_step_end_s
            if end_s is None:
                raise ValueError("the node stopped by itself: a prefill batch ran out of memory")
            finished = len(self.scheduler.advance(end_s))
            done += finished
            self._in_flight -= finished

    def _next(self) -> Request:
        number = next(self._numbers)
        reach = self._reaches[number * 7 % len(self._reaches)]
        prompt, limit = self._tokens
        return Request(str(number), prompt_key=number, prompt_tokens=prompt, limit=limit, reach=reach)
