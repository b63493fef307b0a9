"""Exact truth for thousands of configurations out of a few dozen runs of the step loop.

In a closed loop the order of steps does not depend on how long they take: which requests run together follows from
the draft tree, the running cap and the KV memory alone. So the loop is run once for each of those, the steps are
counted, and the time of any configuration is the sum of its own step times over that count. The result is what
`simulated_node.truth.closed_loop_throughput` gives, to rounding.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from autotune.simulated_node.acceptance import CLASSES, reach_of
from autotune.simulated_node.latency import StepModel
from autotune.simulated_node.nodes import NodeDescription
from autotune.simulated_node.plan import ServingPlan
from autotune.simulated_node.scheduler import Request, Scheduler

WARMUP_ROUNDS = 2
_PLAIN_ROUNDS = 4
_FEWEST_ROUNDS = 6
_TOKENS_WANTED = 48_000
"""So many make the accept length true to about 0.4 %; the table is the truth of the benchmark all the same."""


@dataclass(frozen=True)
class Steps:
    """What the loop did in its window. `running`: decode steps by how many requests ran. `context`: the sum over
    decode steps of the KV tokens held; `prefill`: tokens; `largest_prefill`: of one batch, the warm-up included."""

    running: Counter[int]
    context: int
    prefill: int
    largest_prefill: int
    generated: int

    def throughput(self, model: StepModel) -> float:
        """Output tokens per second of a server with these step times."""
        seconds = sum(count * model.decode_s(running, 0) for running, count in self.running.items())
        per_token = model.decode_s(1, 1) - model.decode_s(1, 0)
        return self.generated / (seconds + per_token * self.context + model.prefill_s(self.prefill))


class _Counting(StepModel):
    def __init__(self, node: NodeDescription, plan: ServingPlan) -> None:
        super().__init__(node, plan)
        self.calls: list[tuple[str, int, int]] = []
        self.begun_s = 0.0  # when the last of them ends

    def prefill_s(self, tokens: int) -> float:
        return self._counted(("prefill", tokens, 0), super().prefill_s(tokens))

    def decode_s(self, running: int, context_tokens: int) -> float:
        return self._counted(("decode", running, context_tokens), super().decode_s(running, context_tokens))

    def _counted(self, call: tuple[str, int, int], seconds: float) -> float:
        self.calls.append(call)
        self.begun_s += seconds
        return seconds

    def ended(self, now_s: float) -> int:
        """Steps that are over: the last one runs on where its end lies ahead."""
        return len(self.calls) - (self.begun_s > now_s * (1 + 1e-9) + 1e-9)


def count_steps(
    node: NodeDescription,
    plan: ServingPlan,
    concurrency: int,
    max_tokens: int,
    prompt_tokens: int,
    rounds: int | None = None,
) -> Steps:
    """`plan`'s step times do not matter, nor does its limit on a prefill batch: whoever asks compares it with
    `largest_prefill`."""
    model = _Counting(node, plan)
    scheduler = Scheduler(plan, model, random.Random(0))
    tree = plan.tree
    reaches = [reach_of(node.acceptance, tree, index) for index in range(CLASSES)] if tree else [()]
    if rounds is None:
        rounds = _PLAIN_ROUNDS if tree is None else max(_FEWEST_ROUNDS, _TOKENS_WANTED // (concurrency * max_tokens))
    number = in_flight = 0

    def run(completions: int) -> tuple[int, int]:
        """Steps ended and tokens made when so many more requests have finished."""
        nonlocal number, in_flight
        done = 0
        while done < completions:
            while in_flight < concurrency:
                request = Request(
                    str(number),
                    prompt_key=number,
                    prompt_tokens=prompt_tokens,
                    limit=max_tokens,
                    reach=reaches[number * 7 % len(reaches)],
                )
                scheduler.submit(request, scheduler.now_s)
                number += 1
                in_flight += 1
            end_s = scheduler.next_step_end_s
            if end_s is None:
                raise ValueError("the node stopped by itself")
            finished = len(scheduler.advance(end_s))
            done += finished
            in_flight -= finished
        return model.ended(scheduler.now_s), scheduler.totals.generated

    first, before = run(WARMUP_ROUNDS * concurrency)
    last, after = run(rounds * concurrency)
    window = model.calls[first:last]
    decodes = [(running, context) for kind, running, context in window if kind == "decode"]
    prefills = [tokens for kind, tokens, _ in model.calls if kind == "prefill"]
    return Steps(
        running=Counter(running for running, _ in decodes),
        context=sum(context for _, context in decodes),
        prefill=sum(tokens for kind, tokens, _ in window if kind == "prefill"),
        largest_prefill=max(prefills, default=0),
        generated=after - before,
    )
