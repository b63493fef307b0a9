from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from autotune.domain.workload import Prompt
from autotune.errors import InputError, LoadFailed
from autotune.load.coding import CodingCatalogue
from autotune.load.prompt_file import read_prompts
from autotune.load.prompts import BundledPrompts, FilePrompts, prompt_source


@pytest.fixture(scope="module")
def catalogue() -> CodingCatalogue:
    return CodingCatalogue.load()


def bundled(*, seed: int = 1, skip: int = 0) -> BundledPrompts:
    source = prompt_source("coding", seed=seed, skip=skip)
    assert isinstance(source, BundledPrompts)
    return source


def write(path: Path, *lines: object) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), "utf-8")
    return path


def test_the_bundled_set_has_at_least_2000_distinct_base_prompts(catalogue: CodingCatalogue) -> None:
    assert catalogue.bases >= 2000
    assert len({catalogue.compose(base, 0) for base in range(catalogue.bases)}) == catalogue.bases


def test_the_parts_of_the_bundled_set_do_not_repeat(catalogue: CodingCatalogue) -> None:
    modules = [task[0] for task in catalogue.tasks]
    extensions = [extension for _, extension in catalogue.languages]
    for parts in (modules, extensions, catalogue.repositories, catalogue.styles, catalogue.angles):
        assert len(set(parts)) == len(parts)


def test_every_variation_of_a_base_prompt_reads_differently(catalogue: CodingCatalogue) -> None:
    variations = range(0, catalogue.variations, 97)
    assert len({catalogue.compose(500, variation) for variation in variations}) == len(variations)


def test_composed_prompts_have_every_placeholder_filled(catalogue: CodingCatalogue) -> None:
    for base in range(catalogue.bases):
        text = catalogue.compose(base, 3)
        for placeholder in ("{task}", "{detail}", "{language}", "{stub}", "{package}", "\n\n\n"):
            assert placeholder not in text


def test_sketches_are_python(catalogue: CodingCatalogue) -> None:
    for module, _, _, stub in catalogue.tasks:
        compile(stub, module, "exec")


def test_bundled_prompts_vary_in_length_from_a_line_to_a_package_of_100_lines(catalogue: CodingCatalogue) -> None:
    texts = [catalogue.compose(base, 0) for base in range(catalogue.bases)]
    lengths = sorted(len(text) for text in texts)
    assert lengths[0] < 180
    assert 300 < lengths[len(lengths) // 2] < 1500
    long = [text for text in texts if text.count("\n") >= 100]
    assert 0.1 < len(long) / len(texts) < 0.2
    assert len({text.split("```", 2)[1] for text in long}) >= len(catalogue.tasks)


def test_any_twelve_prompts_in_a_row_hold_one_or_two_long_ones() -> None:
    prompts = bundled().take(4400)
    long = [prompt.text.count("\n") >= 100 for prompt in prompts]
    counts = {sum(long[start : start + 12]) for start in range(len(long) - 12)}
    assert counts == {1, 2}


def test_held_out_prompts_are_none_of_those_for_screening() -> None:
    screening, held_out = bundled(seed=5), prompt_source("coding", seed=5, held_out=True)
    assert screening.capacity == held_out.capacity
    assert not {p.text for p in screening.take(5000)} & {p.text for p in held_out.take(5000)}
    end = bundled(seed=5, skip=screening.capacity - 5000)
    first_held_out = prompt_source("coding", seed=5, held_out=True).take(5000)
    assert not {p.identity for p in end.take(5000)} & {p.identity for p in first_held_out}


def test_a_quarter_of_a_file_is_held_out(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", *({"prompt": f"question {n}"} for n in range(41)))
    screening, held_out = prompt_source(str(path), seed=2), prompt_source(str(path), seed=2, held_out=True)
    assert (screening.capacity, held_out.capacity) == (31, 10)
    texts = [p.text for p in screening.take(31)] + [p.text for p in held_out.take(10)]
    assert len(set(texts)) == 41


def test_nothing_of_a_file_of_three_prompts_is_held_out(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", {"prompt": "a"}, {"prompt": "b"}, {"prompt": "c"})
    with pytest.raises(LoadFailed, match="0 of the 0"):
        prompt_source(str(path), seed=2, held_out=True).take(1)


def test_a_line_of_a_file_may_have_its_own_number_of_tokens(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", {"prompt": "a", "max_tokens": 7}, {"prompt": "b"})
    assert {p.text: p.max_tokens for p in prompt_source(str(path), seed=0).take(2)} == {"a": 7, "b": None}


def test_on_request_all_prompts_share_a_prefix_of_about_the_length_asked_for() -> None:
    plain = prompt_source("coding", seed=1).take(20)
    shared = prompt_source("coding", seed=1, prefix_tokens=2000).take(20)
    beginnings = {text.text.removesuffix(alone.text) for text, alone in zip(shared, plain, strict=True)}
    (prefix,) = beginnings
    assert 0.98 * 8000 < len(prefix) <= 8000 + 2
    assert [p.identity for p in shared] == [p.identity for p in plain]


def test_twenty_thousand_prompts_hold_no_repeat_and_share_no_beginning() -> None:
    source = bundled()
    assert source.capacity >= 300_000
    prompts = source.take(20_000)
    assert len({prompt.text for prompt in prompts}) == 20_000
    assert len({prompt.identity for prompt in prompts}) == 20_000
    beginnings = Counter(prompt.text[:32] for prompt in prompts)
    assert sum(count for count in beginnings.values() if count > 1) < 0.01 * 20_000


def test_consecutive_prompts_hold_each_base_prompt_once(catalogue: CodingCatalogue) -> None:
    prompts = bundled().take(2 * catalogue.bases)
    bases = [prompt.identity.split("-")[1] for prompt in prompts]
    assert len(set(bases[: catalogue.bases])) == catalogue.bases
    assert len(set(bases[catalogue.bases :])) == catalogue.bases
    assert bases[: catalogue.bases] != bases[catalogue.bases :]


def test_the_order_depends_on_the_seed_alone() -> None:
    assert bundled(seed=3).take(50) == bundled(seed=3).take(50)
    assert bundled(seed=3).take(50) != bundled(seed=4).take(50)


def test_skip_goes_on_where_a_study_stopped() -> None:
    whole = bundled().take(120)
    first = bundled()
    assert first.take(70) == whole[:70]
    assert first.position == 70
    assert bundled(skip=first.position).take(50) == whole[70:]


def test_the_very_last_prompt_can_be_taken_and_none_after_it() -> None:
    source = bundled(skip=bundled().capacity - 1)
    assert len(source.take(1)) == 1
    with pytest.raises(LoadFailed, match="1 more are needed, 0 of the"):
        source.take(1)


def test_taking_more_than_is_left_takes_nothing() -> None:
    source = FilePrompts([Prompt(text, text) for text in "abc"], name="mine.jsonl", seed=0, skip=0)
    with pytest.raises(LoadFailed, match=r"4 more are needed, 3 of the 3 distinct prompts of mine\.jsonl are left"):
        source.take(4)
    assert len(source.take(3)) == 3


def test_a_file_of_the_users_own_is_read_in_its_three_shapes(tmp_path: Path) -> None:
    chat = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Sort a list."}]}
    path = write(tmp_path / "mine.jsonl", {"prompt": "Reverse a string."}, "", {"text": "Parse a date."}, chat)
    assert tuple(prompt.text for prompt in read_prompts(path)) == (
        "Reverse a string.",
        "Parse a date.",
        "Be brief.\n\nSort a list.",
    )


def test_equal_lines_of_a_file_count_once(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", {"prompt": "a"}, {"text": "a"}, {"prompt": "b"})
    source = prompt_source(str(path), seed=0)
    assert source.capacity == 2
    taken = source.take(2)
    assert {prompt.text for prompt in taken} == {"a", "b"}
    assert len({prompt.identity for prompt in taken}) == 2


def test_the_identity_of_a_files_prompt_is_its_text_and_not_its_place(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", {"prompt": "a"})
    two = write(tmp_path / "two.jsonl", {"prompt": "b"}, {"prompt": "a"})
    alone = prompt_source(str(one), seed=0).take(1)[0]
    assert alone in prompt_source(str(two), seed=5).take(2)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{not json", "a line must be JSON"),
        ("[1, 2]", "must be a JSON object, but got list"),
        ('{"question": "x"}', "but has: question"),
        ('{"prompt": ""}', "with text in it"),
        ('{"prompt": 3}', "with text in it"),
        ('{"prompt": "a", "max_tokens": 0}', "`max_tokens` must be a whole number of at least 1, but got 0"),
        ('{"prompt": "a", "max_tokens": true}', "but got true"),
        ('{"prompt": "a", "max_tokens": 2.5}', "but got 2.5"),
        ('{"messages": "hello"}', "`messages` must be a list"),
        ('{"messages": [{"role": "user"}]}', "must have a `content` that is text"),
        ('{"messages": [{"role": "user", "content": " "}]}', "`messages` hold no text"),
        ('{"prompt": "\\ud800"}', "half a surrogate pair at character 0"),
    ],
)
def test_a_bad_line_is_told_with_file_and_line(tmp_path: Path, line: str, said: str) -> None:
    path = write(tmp_path / "mine.jsonl", {"prompt": "fine"}, line)
    with pytest.raises(InputError) as caught:
        read_prompts(path)
    assert caught.value.message.startswith(f"{path}:2: ")
    assert said in caught.value.message


def test_bytes_that_are_not_utf8_are_told_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b'{"prompt": "caf\xe9"}\n')
    with pytest.raises(InputError, match=r"mine\.jsonl:1: a line must be UTF-8"):
        read_prompts(path)


def test_all_bad_lines_are_told_at_once_up_to_twenty(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", *["oops"] * 25)
    with pytest.raises(InputError) as caught:
        read_prompts(path)
    assert caught.value.message.count("a line must be JSON") == 20
    assert "and 5 more lines with faults" in caught.value.message


@pytest.mark.parametrize(("name", "said"), [("none.jsonl", "cannot be read"), ("poems", "prompts are `coding` or")])
def test_a_source_that_does_not_exist_is_an_input_error(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        prompt_source(str(tmp_path / name), seed=0)


def test_an_empty_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no prompt"):
        read_prompts(write(tmp_path / "mine.jsonl", ""))
