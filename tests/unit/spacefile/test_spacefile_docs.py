import re
from pathlib import Path

import pytest
import yaml

from autotune import spacefile
from autotune.spacefile import loader, parameters, sections

TEXT = (Path(__file__).parents[3] / "docs/space_file.md").read_text()
HEADINGS = re.findall(r"^#+ `([^`]+)`$", TEXT, re.MULTILINE)
EXAMPLES = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
KEYS = [
    *loader.KEYS,
    *(
        f"{section}.{key}"
        for section, keys in (
            ("engine", sections.ENGINE),
            ("parameters", parameters.KEYS),
            ("workload", sections.WORKLOAD),
            ("objective", sections.OBJECTIVE),
            ("budget", sections.BUDGET),
            ("limits", sections.LIMITS),
            ("search", sections.SEARCH),
        )
        for key in keys
    ),
]
REST = yaml.safe_load("""
study: rest
engine: {name: sglang, model: /models/m}
parameters:
  speculative_eagle_topk: [1, 2]
  speculative_num_steps: {low: 1, high: 3}
  speculative_num_draft_tokens: [2, 3]
workload: {concurrency: {1: 1}}
budget: {trials: 3}
""")


def test_every_key_has_a_heading_and_every_heading_a_key():
    assert sorted(HEADINGS) == sorted(KEYS)


def test_every_heading_of_a_key_has_an_example():
    chapters = re.split(r"^#+ `[^`]+`$", TEXT, flags=re.MULTILINE)[1:]
    sections_only = {"engine", "workload", "objective", "budget", "limits", "search"}
    without = [name for name, body in zip(HEADINGS, chapters, strict=True) if "```yaml" not in body]
    assert set(without) == sections_only


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.strip().splitlines()[0])
def test_every_example_loads(example):
    given = yaml.safe_load(example)
    whole = {**REST, **given}
    for section in ("engine", "workload"):
        whole[section] = {**REST[section], **given.get(section, {})}
    spacefile.load_text(spacefile.dump(whole), "example")
