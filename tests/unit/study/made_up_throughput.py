"""A node whose law is the grey-box model's own: accept length by the draft, cycle time by factors."""

import itertools
import math
import random

from autotune.domain.configuration import Configuration
from autotune.domain.expression import parse
from autotune.domain.space import Parameter, SearchSpace, Values
from autotune.study.model.greybox import Observation

LEVELS = (1, 8, 64)
STEPS = (1, 2, 4)
SPACE = SearchSpace(
    (
        Parameter("speculative_algorithm", Values((None, "E"))),
        Parameter("speculative_num_steps", Values(STEPS), when=parse("speculative_algorithm != unset")),
        Parameter("graph", Values((16, 64, 256))),
        Parameter("NCCL_PROTO", Values((None, "LL", "Simple"))),
        Parameter("backend", Values(("a", "b", "c"))),
    )
)


def candidates() -> list[Configuration]:
    drafts = [{"speculative_algorithm": None}]
    drafts += [{"speculative_algorithm": "E", "speculative_num_steps": steps} for steps in STEPS]
    rest = itertools.product((16, 64, 256), (None, "LL", "Simple"), ("a", "b", "c"))
    return [
        Configuration({**draft, "graph": graph, "NCCL_PROTO": proto, "backend": backend})
        for (graph, proto, backend), draft in itertools.product(rest, drafts)
    ]


def true_accept(configuration: Configuration) -> float:
    steps = configuration.get("speculative_num_steps")
    return 1.0 if steps is None else 1.0 + sum(0.7**depth for depth in range(1, int(str(steps)) + 1))


def true_cycle(configuration: Configuration, level: int) -> float:
    """Seconds."""
    width = 1 + int(str(configuration.get("speculative_num_steps") or 0))
    base = 0.01 * (1.0 + 0.05 * (level * width) ** 0.8)
    proto = {None: 1.3, "LL": 1.0, "Simple": 1.2}[configuration.get("NCCL_PROTO")]
    backend = {"a": 1.0, "b": 0.9, "c": 1.2}[str(configuration.get("backend", "a"))]
    graph = 1.4 if level > int(str(configuration.get("graph", 256))) else 1.0
    return base * proto * backend * graph


def observation(configuration: Configuration, rng: random.Random, noise: float = 0.008) -> Observation:
    accept = true_accept(configuration)
    throughput = {
        level: level * accept / true_cycle(configuration, level) * math.exp(rng.gauss(0.0, noise)) for level in LEVELS
    }
    speculating = configuration.get("speculative_algorithm") is not None
    return Observation(configuration, throughput, dict.fromkeys(LEVELS, accept) if speculating else {})
