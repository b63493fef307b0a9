from __future__ import annotations

import pytest

from autotune import engines
from autotune.domain.trial import LaunchCommand
from autotune.engines.dialect.placement import gpus


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", (0,)),
        ("--tp-size 4", (0, 1, 2, 3)),
        ("--tensor-parallel-size=2", (0, 1)),
        ("--tp-size 2 --pp-size 2", (0, 1, 2, 3)),
        ("--tp-size 2 --dp-size 2", (0, 1, 2, 3)),
        ("--tp-size 4 --dp-size 4 --enable-dp-attention", (0, 1, 2, 3)),
        ("--tp-size 16 --nnodes 2", tuple(range(8))),
        ("--tp-size 2 --base-gpu-id 4", (4, 5)),
        ("--tp-size 2 --base-gpu-id 1 --gpu-id-step 2", (1, 3)),
        ("--tp-size 8 --tp-size 2", (0, 1)),
        ("--device cuda --tp-size 2", (0, 1)),
        ("--device cpu --tp-size 2", None),
        ("--tp-size", (0,)),  # the parser of the server will say it
    ],
)
def test_the_gpus_of_a_command_are_counted_from_its_words(words: str, expected: tuple[int, ...] | None) -> None:
    assert gpus(("python", "-m", "sglang.launch_server", *words.split())) == expected


def test_a_simulated_server_takes_none_of_the_nodes_gpus() -> None:
    command = LaunchCommand(("server", "--tp-size", "8"))
    assert engines.get("simulated").gpus(command) is None
    assert engines.get("sglang").gpus(command) == tuple(range(8))
