from __future__ import annotations

from autotune.domain.space import SpaceCount
from autotune.domain.trial import Hardware, LaunchCommand
from autotune.reporting import VersionEntry, version_comparison
from tests import builders


def entry(version: str, *own: str, refused: tuple[str, ...] = ()) -> VersionEntry:
    command = LaunchCommand(("python", "-m", "server", "--tp-size", "8", *own), chosen={"NCCL_PROTO": "LL"})
    counts = SpaceCount(10, 7, 6, {"rule: no": 3}, exact=False, remarked={"bug: known": 2})
    return VersionEntry(version, (("baseline", None if refused else command, refused),), counts, refused)


def test_what_versions_share_is_shown_once_and_what_is_their_own_beside_each_other() -> None:
    lines = version_comparison(
        builders.spec(),
        [entry("0.5.9", "--old", "1"), entry("0.5.23", "--new", "1")],
        Hardware("sm120", 8, link="pcie"),
    ).splitlines()
    assert lines[1] == "hardware   8 x sm120, pcie"
    start = lines.index("baseline")
    assert lines[start + 1] == "  all        NCCL_PROTO=LL python -m server --tp-size 8"
    assert lines[start + 2 : start + 4] == ["  0.5.9      --old 1", "  0.5.23     --new 1"]
    assert "  0.5.9: at least 7 valid of 10, at least 6 different servers" in lines
    assert "    refused       3  rule: no" in lines
    assert "    remark        2  bug: known" in lines


def test_a_version_that_would_not_launch_it_says_why() -> None:
    shown = version_comparison(builders.spec(), [entry("0.5.9", refused=("no such flag",)), entry("0.5.23")], None)
    assert "  0.5.9      refused: no such flag" in shown
    assert "    misfit           no such flag" in shown
    assert "not known: rules that need it are silent" in shown
