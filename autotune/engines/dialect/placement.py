"""Which GPUs a command's server takes, counted within what is visible to it."""

from __future__ import annotations

from collections.abc import Sequence

_TENSOR = ("--tp-size", "--tensor-parallel-size")
_PIPELINE = ("--pp-size", "--pipeline-parallel-size")
_DATA = ("--dp-size", "--data-parallel-size")


def gpus(argv: Sequence[str]) -> tuple[int, ...] | None:
    """None for a server that uses no CUDA device. Tensor × pipeline ranks, spread over the machines of `--nnodes`;
    as many times as there are data-parallel replicas, which under `--enable-dp-attention` share the tensor ranks."""
    if _word(argv, ("--device",)) not in (None, "cuda"):
        return None
    ranks = _number(argv, _TENSOR, 1) * _number(argv, _PIPELINE, 1)
    if "--enable-dp-attention" not in argv:
        ranks *= _number(argv, _DATA, 1)
    here = max(1, ranks // max(1, _number(argv, ("--nnodes",), 1)))
    first, step = _number(argv, ("--base-gpu-id",), 0), _number(argv, ("--gpu-id-step",), 1)
    return tuple(first + step * rank for rank in range(here))


def _word(argv: Sequence[str], spellings: Sequence[str]) -> str | None:
    """The value of a flag, the last one where it is given more than once, as argparse takes it."""
    found = None
    for place, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name in spellings:
            found = value if equals else next(iter(argv[place + 1 : place + 2]), None)
    return found


def _number(argv: Sequence[str], spellings: Sequence[str], otherwise: int) -> int:
    word = _word(argv, spellings)
    return int(word) if word is not None and word.isdecimal() else otherwise
