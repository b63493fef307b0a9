from __future__ import annotations

import pytest

from autotune.engines.dialect.flag_table import known_releases, release_of, table_for


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("0.5.23", (0, 5, 23)),
        ("0.5.15.post1", (0, 5, 15)),
        ("v0.5.10rc2", (0, 5, 10)),
        ("0.5.15.dev3+gabc", (0, 5, 15)),
        ("unknown", ()),
    ],
)
def test_a_release_is_the_numbers_at_the_front(text: str, release: tuple[int, ...]) -> None:
    assert release_of(text) == release


def test_every_version_from_0_5_9_to_0_5_23_has_a_table() -> None:
    assert known_releases() == tuple((0, 5, minor) for minor in range(9, 24))


@pytest.mark.parametrize("release", known_releases())
def test_each_table_has_the_flags_that_every_launch_needs(release: tuple[int, ...]) -> None:
    table = table_for(release)
    for name in ("--model-path", "--host", "--port", "--served-model-name", "--tp-size", "--attention-backend"):
        assert table.flag(name) is not None, name
    kinds = {flag.kind for flag in table.flags.values()}
    assert kinds <= {"switch", "toggle", "int", "float", "text", "ints", "floats", "texts"}


def test_between_two_known_versions_the_older_one_stands_in() -> None:
    assert table_for((0, 5, 14, 7)).version == "0.5.14"


def test_an_alias_is_the_flag_that_it_names() -> None:
    old, new = table_for((0, 5, 9)), table_for((0, 5, 23))
    assert old.main("--tp-size") == old.main("--tensor-parallel-size") == "--tensor-parallel-size"
    assert new.main("--tensor-parallel-size") == "--tp-size"


def test_the_decode_graph_flag_changed_its_name() -> None:
    assert table_for((0, 5, 13)).flag("--cuda-graph-max-bs-decode") is None
    assert table_for((0, 5, 14)).flag("--cuda-graph-max-bs-decode") is not None
    assert table_for((0, 5, 23)).flag("--cuda-graph-max-bs") is None


def test_choices_are_those_of_the_version() -> None:
    backends = {release: table_for(release).flags["--attention-backend"].choices for release in known_releases()}
    assert "cutlass_mla" in backends[(0, 5, 9)]
    assert "cutlass_mla" not in backends[(0, 5, 23)]
    assert "hpc_ops" in backends[(0, 5, 23)]
