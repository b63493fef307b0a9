"""What an exception or a line of the log says about why a server ended: all rules, in the order they are asked."""

from __future__ import annotations

import re

from autotune.domain.trial import FailureReason
from autotune.engines.dialect.kernel_rules import BUG_RULE, COMMUNICATION_LINES, COMMUNICATION_RULES, KERNEL_RULES
from autotune.engines.dialect.memory_rules import (
    BUS_ERROR_RULE,
    GPU_MEMORY_RULES,
    MEMORY_RULES,
    SHARED_MEMORY_RULE,
)
from autotune.engines.dialect.model_rules import COMBINATION_RULES, MODEL_RULES
from autotune.engines.dialect.phases import BEFORE_WEIGHTS, STARTING
from autotune.engines.dialect.rule import Rule, any_of

_PORT_RULE = Rule(
    any_of(
        r"address already in use",
        r"EADDRINUSE",
        r"\[Errno 98\]",
        r"[Pp]ort \d+ is (not available|already in use)",
        r"_PORT \(\d+\) must be between",
    ),
    FailureReason.PORT_TAKEN,
    "a port that the server wanted was taken, or is none (SGLang derives further ports from its own)",
)

EXCEPTION_RULES: tuple[Rule, ...] = (
    *MEMORY_RULES,
    _PORT_RULE,
    *KERNEL_RULES,
    *COMMUNICATION_RULES,
    *MODEL_RULES,
    *COMBINATION_RULES,
)
"""Applied to exceptions, the root of a chain first; the first rule that holds decides."""

LINE_RULES: tuple[Rule, ...] = (
    Rule(
        re.compile(
            r"^[\w .-]+: error: (?P<what>argument .+|unrecognized arguments: .+|ambiguous option: .+"
            r"|the following arguments are required: .+)$"
        ),
        FailureReason.ARGUMENT_REJECTED,
        "the server's parser refused an argument",
        "`--help` of this version lists what it takes",
        phases=BEFORE_WEIGHTS,
    ),
    Rule(
        re.compile(r"^(?!.*\b(?:re)?try(?:ing)?\b).*(?:error while attempting to bind|\[Errno 98\]|EADDRINUSE)"),
        FailureReason.PORT_TAKEN,
        "the port was taken while the server loaded",
        phases=STARTING,
    ),
)
"""Applied, where no exception decided, to the lines after the last mark of progress: what a server survived, and a port
for which it takes another, are not what it ended by. Each rule goes over all of them before the next."""

ABORT_LINES: tuple[Rule, ...] = (
    *(
        Rule(re.compile(rf"what\(\):.*(?:{rule.pattern.pattern})"), rule.reason, rule.message, rule.hint, rule.phases)
        for rule in (*GPU_MEMORY_RULES, BUG_RULE)
    ),
    Rule(
        re.compile(r"terminated with exception: .*(?:an illegal memory access|device-side assert)"),
        BUG_RULE.reason,
        BUG_RULE.message,
        BUG_RULE.hint,
    ),
    *COMMUNICATION_LINES,
    BUS_ERROR_RULE,
)
"""What C++ says as it ends a process (std::terminate, NCCL's watchdog), likewise."""

ROOT_LINES: tuple[Rule, ...] = (SHARED_MEMORY_RULE,)
"""Warnings that say why the exception came which followed from them."""
