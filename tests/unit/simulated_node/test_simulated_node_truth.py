import random

import pytest

from autotune.simulated_node.acceptance import CLASSES, reach_of
from autotune.simulated_node.latency import StepModel
from autotune.simulated_node.nodes import RTX_PRO_6000_X8
from autotune.simulated_node.resolution import resolve
from autotune.simulated_node.scheduler import NoiseLaw, Request, Scheduler
from autotune.simulated_node.truth import steady_throughput

TUNED = {"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring", "NCCL_P2P_LEVEL": "SYS"}
BASE = ["--model-path", "m", "--tp", "8", "--attention-backend", "flashinfer", "--cuda-graph-max-bs", "128"]
CHAIN = ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "d", "--speculative-num-steps", "2"]
CASES = {
    "no speculation": ([], TUNED),
    "v1 tree": ([*CHAIN, *["--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "16"]], TUNED),
    "v2 chain": ([*CHAIN, "--speculative-eagle-topk", "1"], {**TUNED, "SGLANG_ENABLE_SPEC_V2": "1"}),
}


def long_run(arguments, environment, concurrency, max_tokens, requests):
    """Prompts drawn at random, noise on, a closed loop that starts at once: what a patient measurement sees."""
    plan = resolve(RTX_PRO_6000_X8, [*BASE, *arguments], environment).plan
    draw = random.Random(7)
    scheduler = Scheduler(plan, StepModel(RTX_PRO_6000_X8, plan), random.Random(8), NoiseLaw(relative=0.003))

    def submit(number, at_s):
        tree = plan.tree
        reach = reach_of(RTX_PRO_6000_X8.acceptance, tree, draw.randrange(CLASSES)) if tree else ()
        request = Request(str(number), prompt_key=number, prompt_tokens=100, limit=max_tokens, reach=reach)
        scheduler.submit(request, at_s)

    for number in range(concurrency):
        submit(number, 0.0)
    sent, done = concurrency, 0
    start = None
    while done < requests:
        finished = scheduler.advance(scheduler.next_step_end_s)
        done += len(finished)
        for _ in finished:
            submit(sent, scheduler.now_s)
            sent += 1
        if start is None and done >= 2 * concurrency:
            start = (scheduler.now_s, scheduler.totals.generated)
    return (scheduler.totals.generated - start[1]) / (scheduler.now_s - start[0])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("concurrency", [3, 60])  # 60: above the cap of 48 that speculation brings
def test_the_truth_is_what_a_long_run_of_the_step_loop_shows(case, concurrency):
    arguments, environment = CASES[case]
    truth = steady_throughput("rtx-pro-6000-x8", [*BASE, *arguments], environment, concurrency, 64, 100)
    seen = long_run(arguments, environment, concurrency, 64, 2500)
    assert truth == pytest.approx(seen, rel=0.01)  # 0.5 % of the truth's own and as much of this run's sampling


def test_the_truth_of_a_server_that_cannot_start_is_an_error():
    with pytest.raises(ValueError, match="dies while starting"):
        steady_throughput("rtx-pro-6000-x8", [*BASE, "--attention-backend", "fa3"], {}, 1, 64, 100)
    with pytest.raises(ValueError, match="no simulated node"):
        steady_throughput("rtx-9", BASE, {}, 1, 64, 100)


def test_a_cap_below_the_level_shows_in_the_truth():
    free = steady_throughput("rtx-pro-6000-x8", BASE, TUNED, 32, 64, 100)
    capped = steady_throughput("rtx-pro-6000-x8", [*BASE, "--max-running-requests", "8"], TUNED, 32, 64, 100)
    eight = steady_throughput("rtx-pro-6000-x8", BASE, TUNED, 8, 64, 100)
    assert capped < 0.8 * free
    assert capped == pytest.approx(eight, rel=0.01)
