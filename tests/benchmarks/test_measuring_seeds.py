"""The replay of the published protocol: what a reader takes from a table, and the tables themselves."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

import pytest

from autotune.domain.measurement import Estimate
from benchmarks.measuring import curse, reading, seeds_picture, seeds_replay, seeds_report
from benchmarks.measuring.protocols import Cell, Table, published_table, verdict
from benchmarks.measuring.published import (
    BASELINE,
    CHAIN,
    LEVELS,
    PUBLISHED_SCATTER,
    SAME_LOAD,
    SERVERS,
    TREE,
    scatter,
)
from benchmarks.measuring.virtual import Noise

LOUD = seeds_replay.NOISES["loud"]


def table(half_width: float | None = None, number: int = 0, **rows: list[float]) -> Table:
    """Rows that are not given are those of the published table, the twin's being the baseline's."""
    cells = {}
    for server in SERVERS:
        shown = rows.get(server.name, list((server.published or BASELINE.published).values()))
        cells[server.name] = {
            level: Cell(
                Estimate(value)
                if half_width is None
                else Estimate(value, value * (1 - half_width), value * (1 + half_width), 5),
                60.0,
            )
            for level, value in zip(LEVELS, shown, strict=True)
        }
    return Table("loud", number, cells)


def test_levels_from_the_number_of_requests_on_are_one_load() -> None:
    assert SAME_LOAD == (30, 70, 100, 250)
    assert pytest.approx(0.0445, abs=0.0005) == PUBLISHED_SCATTER


def test_the_loud_noise_scatters_as_the_published_cells_of_one_load_do() -> None:
    rows = []
    for number in range(12):
        for place, server in enumerate((BASELINE, TREE, CHAIN)):
            node = server.node(10 * number + place, LOUD)
            rows.append([node.burst(30, 30, server.tokens).throughput for _ in SAME_LOAD])
    assert scatter(rows) == pytest.approx(PUBLISHED_SCATTER, rel=0.25)  # 108 degrees of freedom: 7 % of itself


def test_a_table_of_the_published_protocol_lies_where_the_published_one_does() -> None:
    shown = published_table("quiet", 3, Noise(relative=0.0))
    for server in (BASELINE, TREE, CHAIN):
        for level in LEVELS:
            near = 0.14 if level in SAME_LOAD else 0.06
            assert shown.cells[server.name][level].value == pytest.approx(server.published[level], rel=near)


def test_above_its_cap_the_chain_serves_no_more_and_the_baseline_overtakes_it() -> None:
    node, free = (server.node(0, Noise(relative=0.0)) for server in (CHAIN, CHAIN.raised()))
    assert (node.plan.max_running, free.plan.max_running) == (48, 256)
    assert node.truth(70, 128) == pytest.approx(node.truth(100, 128), rel=0.01)
    assert free.truth(70, 128) > 1.1 * node.truth(70, 128)


@pytest.mark.parametrize(
    ("order", "flips"), [([1, 1, 1], 0), ([-1, 0, 1], 1), ([0, 0, 0], 0), ([1, -1, 0, 1], 2), ([-1, 0, -1], 0)]
)
def test_a_crossover_is_a_flip_of_the_order_and_ties_say_nothing(order: list[int], flips: int) -> None:
    assert reading.crossovers(order) == flips


def test_less_than_two_percent_is_a_tie_to_a_careful_reader_of_bare_figures() -> None:
    assert reading.signs([101.0, 103.0, 97.0], [100.0] * 3, 0.02) == [0, 1, -1]
    assert reading.signs([101.0, 100.0, 99.9], [100.0] * 3) == [1, 0, -1]


def test_the_published_table_read_so_has_one_crossover_and_a_fall_at_250() -> None:
    shown = table()
    order = reading.signs(shown.row("chain"), shown.row("baseline"), reading.TIE)
    assert order == [-1, -1, -1, -1, 1, 1, 0, 1]
    assert reading.crossovers(order) == 1
    found = reading.one_load([shown])
    assert found.falls == {"baseline": 1.0, "tree": 0.0, "chain": 1.0}
    assert found.spread["baseline"] == pytest.approx(0.114, abs=0.001)
    assert found.flips == 0.0


def test_the_tools_verdict_is_undecided_where_the_intervals_are_wider_than_the_difference() -> None:
    assert reading.verdicts(table(0.2), "chain", "baseline") == [0] * 8
    assert reading.verdicts(table(0.005), "chain", "baseline") == [-1, -1, -1, -1, 1, 1, 0, 1]
    assert verdict(table(0.005), "twin", "baseline", LEVELS).verdict == "unclear"


def test_ranks_count_what_is_right_undecided_and_wrong() -> None:
    found = reading.ranks([[1, 0, 0], [-1, 1, 1], [1, -1, 0], [1, -1, 0]], [1, -1, 0])
    assert found.right == [0.75, 0.5, 0.75]
    assert found.undecided == [0.0, 0.25, 0.0]
    assert found.wrong == pytest.approx([0.25, 0.25, 0.25])


def test_the_best_cell_is_held_against_the_truth_of_its_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "truth", lambda _name, *, raised: (1000.0,) * 8 if raised else (2000.0,) * 8)
    found = reading.best_cells([table()], tool=False)
    assert found.at == {"chain at 100": 1.0}
    assert found.error == [pytest.approx(775.0 / 2000.0 - 1.0)]
    assert found.curse == [pytest.approx(775.0 / ((759.3 + 768.6 + 775.0 + 754.4) / 4) - 1.0)]
    assert found.held is None
    assert reading.best_cells([table(0.3)], tool=True).held == 1.0
    assert reading.best_cells([table(0.1)], tool=True).held == 0.0


def test_candidates_of_the_curse_differ_and_all_start() -> None:
    servers = curse.candidates()
    assert len({(s.arguments, tuple(sorted(s.environment.items()))) for s in servers}) == curse.CANDIDATES
    assert all(server.node(0, Noise()).launches == 1 for server in servers)


def test_a_replay_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, str, int]] = []

    def maker(protocol: str):  # type: ignore[no-untyped-def]
        def make(noise: str, number: int, _law: Noise) -> Table:
            made.append((protocol, noise, number))
            return table(0.01, number)

        return make

    monkeypatch.setattr(seeds_replay, "PROTOCOLS", {name: maker(name) for name in ("published", "tool")})
    monkeypatch.setattr(seeds_replay, "NOISES", {"loud": LOUD})
    path = tmp_path / "tables.jsonl"
    seeds_replay.replay(path, 2, 1)
    again = seeds_replay.replay(path, 3, 1)
    assert made == [("published", "loud", 0), ("published", "loud", 1), ("tool", "loud", 0), ("published", "loud", 2)]
    assert again["tool", "loud"] == [table(0.01, 0)]
    assert [found.number for found in again["published", "loud"]] == [0, 1, 2]


def test_report_and_picture_are_made_of_recorded_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "truth", lambda _name, *, raised: (900.0,) * 8 if raised else (700.0,) * 8)
    shown = {("published", "loud"): [table(), table(number=1)], ("tool", "loud"): [table(0.01), table(0.01, 1)]}
    path = tmp_path / "curse.json"
    different = curse.Different([0.3, 0.31], [0.28, 0.28], [0.0, 0.01], [0.0, 0.01], 2)
    stale = curse.Stale([-0.16, -0.17], [0.15, 0.16], {"better": 2}, -0.17, 0.15)
    path.write_text(json.dumps(asdict(curse.Curse(0.02, [0.04, 0.05], different, stale))))
    text = seeds_report.markdown(shown, curse.run(path, 2))
    assert text.startswith("Simulated")
    assert "best of 40 equal servers over what each has: +4.5 %" in text
    drawn = ElementTree.fromstring(seeds_picture.svg(shown))
    assert len(drawn.findall("{http://www.w3.org/2000/svg}circle")) == 2 * 8 + 1
    labels = [text.text for text in drawn.findall("{http://www.w3.org/2000/svg}text")]
    assert all(labels.count(label) == 1 for label in ("right", "undecided", "wrong", "baseline", "chain"))
