from itertools import pairwise

import pytest

from autotune import spacefile
from autotune.errors import InputError, SpaceFileError

HEAD = """\
study: faulty
engine: {name: sglang, model: /models/m, args: {tp-size: 8}}
workload: {concurrency: {1: 1}}
budget: {trials: 3}
"""
SPACE = """\
parameters:
  algorithm: [unset, EAGLE3]
  topk: {values: [1, 2, 4], when: algorithm != unset}
  overlap: {values: [true, false], when: algorithm != unset}
  share: {low: 0.5, high: 0.9}
"""


def faults(text, **options):
    with pytest.raises(SpaceFileError) as raised:
        spacefile.load_text(text, "s.yaml", **options)
    return list(raised.value.faults)


def only(text):
    found = faults(text)
    assert len(found) == 1, "\n".join(map(str, found))
    return str(found[0])


def in_space(text):
    """The one fault of what follows a sound beginning; its lines counted from there."""
    found = faults(HEAD + SPACE + text)
    assert len(found) == 1, "\n".join(map(str, found))
    return found[0].line - (HEAD + SPACE).count("\n"), found[0].column, str(found[0]).split(": ", 1)[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1, 2", "s.yaml:1:9: not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("a: 1\n  b: 2", "s.yaml:2:4: not valid YAML: mapping values are not allowed here"),
        ("a:\n\tb: 1", "s.yaml:2:1: not valid YAML: a tab may not stand here\n    hint: indent with blanks"),
        ("a: &x 1", "s.yaml:1:4: not valid YAML: anchors and aliases may not be used"),
        ("a: *x", "s.yaml:1:4: not valid YAML: anchors and aliases may not be used"),
        ("a: !!python/name:os.system x", "s.yaml:1:4: not valid YAML: tags may not be used"),
        ("a: 1\n---\nb: 1", "s.yaml:2:1: not valid YAML: a second document begins here"),
        ("a: " + "[" * 30, "s.yaml:1:23: not valid YAML: nested more than 20 deep"),
        ("ü: \x07", "s.yaml:1:4: a character that YAML does not allow, but got U+0007"),
        ("", "s.yaml: there is nothing in it"),
        ("# only a comment\n", "s.yaml: there is nothing in it"),
        ("- 1", "s.yaml:1:1: a space file must be a mapping, but got a list"),
        ("just text", "s.yaml:1:1: a space file must be a mapping, but got `just text`"),
        ("x" * (1 << 20) + ": 1", "s.yaml: a space file may hold 1048576 bytes at most"),
    ],
)
def test_what_is_no_space_file_at_all_is_told_with_its_place(text, expected):
    assert only(text).startswith(expected)


def test_an_alias_bomb_is_refused_at_its_first_anchor():
    bomb = "a: &a [x, x]\n" + "\n".join(f"{key}: &{key} [*{last}, *{last}]" for last, key in pairwise("abcdefg"))
    assert only(bomb).startswith("s.yaml:1:4: not valid YAML: anchors")


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    for path, rule in ((tmp_path / "none.yaml", "there is no such file"), (tmp_path, "cannot be read: ")):
        with pytest.raises(SpaceFileError) as raised:
            spacefile.load(path)
        assert str(raised.value).startswith(f"{path}: {rule}")


def test_a_file_that_is_not_utf8_is_told_at_its_first_bad_byte(tmp_path):
    path = tmp_path / "space.yaml"
    path.write_bytes("a: 1\nü: ".encode() + b"\xe4")
    with pytest.raises(SpaceFileError) as raised:
        spacefile.load(path)
    assert str(raised.value.faults[0]) == f"{path}:2:4: a space file is UTF-8 text, but got the byte 0xE4"


def test_an_oversized_file_is_refused(tmp_path):
    path = tmp_path / "space.yaml"
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(SpaceFileError, match="bytes at most"):
        spacefile.load(path)


def test_an_empty_mapping_lacks_what_has_no_default():
    assert [fault.rule for fault in faults("{}")] == [
        "study is missing",
        "engine.name is missing",
        "engine.model is missing",
        "workload.concurrency must name at least one level",
        "budget must say when the study ends",
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("study: faulty", "study: 12", "s.yaml:1:8: study must be text, but got `12`\n    hint: put it in quotes"),
        ("study: faulty", "study: a b", "s.yaml:1:8: study must be a plain name"),
        ("study: faulty", "study: ../up", "s.yaml:1:8: study must be a plain name"),
        ("study: faulty", "study: a\nstudy: b", "s.yaml:2:1: the key `study` stands twice (first in line 1)"),
        ("study: faulty", "study: a\nsed: 1", "s.yaml:2:1: unknown key `sed`\n    hint: did you mean `seed`?"),
        ("study: faulty", "study: a\nseed: -1", "s.yaml:2:7: seed must be a whole number of at least 0, but got `-1`"),
        ("study: faulty", "study: a\nseed: true", "s.yaml:2:7: seed must be a whole number, but got `true`"),
        ("study: faulty", "study: a\nseed: 99999999999999999999", "s.yaml:2:7: a whole number must fit 64 bits"),
        ("study: faulty", "study: a\n? [b]\n: 1", "s.yaml:2:3: a key must be a word or a number, but got a list"),
        ("name: sglang", "name: ", "s.yaml:2:15: engine.name must be text, but got nothing (null)"),
        ("name: sglang, ", "", "s.yaml:2:9: engine.name is missing"),
        (
            "name: sglang",
            "name: s, pyton: p",
            "s.yaml:2:19: unknown key `pyton` in engine\n    hint: did you mean",
        ),
        ("model: /models/m", "model: [m]", "s.yaml:2:31: engine.model must be text, but got a list"),
        ("tp-size: 8", "--tp-size: 8", "s.yaml:2:49: an argument is written without leading dashes"),
        ("tp-size: 8", "tp-size: [8]", "s.yaml:2:58: engine.args.tp-size must be one value"),
        ("tp-size: 8", "tp-size: 8, tp_size: 8", "s.yaml:2:61: `tp-size` and `tp_size` are one argument"),
        ("tp-size: 8", "tp-size: ", "s.yaml:2:57: engine.args.tp-size must be a value, but got nothing (null)"),
        ("tp-size: 8", "tp-size: .inf", "s.yaml:2:58: a number must be finite, but got `.inf`"),
        ("tp-size: 8", 'tp-size: "\\0"', "s.yaml:2:58: text may not hold a NUL character"),
        ("args: {tp-size: 8}", "args: 3", "s.yaml:2:48: engine.args must be a mapping of keys to values, but got `3`"),
        ("args: {", "env: {A-B: 1}, args: {", "s.yaml:2:48: a variable's name holds letters, digits and _"),
        ("args: {", "env: {A: [1]}, args: {", "s.yaml:2:51: engine.env.A must be one value, but got a list"),
        ("args: {", "env: {A: unset}, args: {", "s.yaml:2:51: engine.env.A must be a value, but got `unset`"),
        ("{1: 1}", "{}", "s.yaml:3:25: workload.concurrency must name at least one level"),
        ("{1: 1}", "[1]", "s.yaml:3:25: workload.concurrency must be a mapping of levels to weights"),
        ("{1: 1}", "{0: 1}", "s.yaml:3:26: a concurrency level must be a whole number of at least 1, but got `0`"),
        ("{1: 1}", "{1.5: 1}", "s.yaml:3:26: a concurrency level must be a whole number of at least 1"),
        ("{1: 1}", "{true: 1}", "s.yaml:3:26: a concurrency level must be a whole number of at least 1"),
        ("{1: 1}", "{1: 0}", "s.yaml:3:29: workload.concurrency.1 must be a number above 0, but got `0`"),
        ("{1: 1}", "{1: x}", "s.yaml:3:29: workload.concurrency.1 must be a number, but got `x`"),
        ("{1: 1}", "{1: 1, 0x1: 2}", "s.yaml:3:32: the key `workload.concurrency.0x1` stands twice"),
        ("{1: 1}", "{1: 1}, max_tokens: 0", "s.yaml:3:45: workload.max_tokens must be a whole number of at least 1"),
        ("{1: 1}", "{1: 1}, ignore_eos: no", "s.yaml:3:45: workload.ignore_eos must be true or false, but got `no`"),
        ("{1: 1}", "{1: 1}, temperature: -1", "s.yaml:3:46: workload.temperature must be a number of at least 0"),
        ("{trials: 3}", "{}", "s.yaml:4:9: budget must say when the study ends"),
        ("{trials: 3}", "{trials: unset}", "s.yaml:4:9: budget must say when the study ends"),
        ("{trials: 3}", "{trials: 2.5}", "s.yaml:4:18: budget.trials must be a whole number, but got `2.5`"),
        ("{trials: 3}", "{hours: 0}", "s.yaml:4:17: budget.hours must be a number above 0, but got `0`"),
        (
            "{trials: 3}",
            "{trials: 3}\nlimits: {silence_s: 0}",
            "s.yaml:5:21: limits.silence_s must be a number",
        ),
        (
            "{trials: 3}",
            "{trials: 3}\nobjective: {metric: throughput}",
            "s.yaml:5:21: objective.metric must be",
        ),
        ("{trials: 3}", "{trials: 3}\nobjective: {slo: {}}", "s.yaml:5:13: slo is a section of its own"),
    ],
)
def test_a_fault_of_a_section_stands_where_it_is(old, new, expected):
    assert old in HEAD
    assert only(HEAD.replace(old, new)).startswith(expected)


@pytest.mark.parametrize(
    ("domain", "column", "expected"),
    [
        ("3", 6, "parameters.x must be a list of values, or a mapping"),
        ("", 5, "parameters.x must be a list of values, or a mapping"),
        ("[]", 6, "parameters.x must list at least one value"),
        ("[1, [2]]", 10, "parameters.x.1 must be one value"),
        ("[1, null]", 10, "parameters.x.1 must be a value, but got nothing (null)\n    hint: write `unset`"),
        ("[1, 2, 1]", 13, "parameters.x holds a value twice, but got `1`"),
        ("[1, 1.0]", 10, "parameters.x holds a value twice, but got `1.0`"),
        ("[unset, 'unset']", 14, "parameters.x holds a value twice, but got `unset`"),
        ("{values: 3}", 15, "parameters.x.values must be a list of values, but got `3`"),
        ("{values: [1], low: 2}", 6, "parameters.x has both `values` and `low`"),
        ("{low: 1}", 6, "parameters.x.high is missing"),
        ("{low: 2, high: 1}", 12, "parameters.x: low must not be above high, but got 2 and 1"),
        ("{low: a, high: 1}", 12, "parameters.x.low must be a number, but got `a`"),
        ("{low: 0, high: 8, log: true}", 12, "parameters.x: a logarithmic range must begin above 0, but got 0"),
        ("{low: 1, high: 8, log: 1}", 29, "parameters.x.log must be true or false"),
        ("{low: 1, high: 8, step: 2, log: true}", 30, "parameters.x: a logarithmic range has no step"),
        (
            "{low: 1, high: 8, step: 2}",
            21,
            "parameters.x: steps of 2 from 1 must reach high, but got 8\n    hint: 7",
        ),
        ("{low: 0.1, high: 0.9, step: 0.3}", 23, "parameters.x: steps of 0.3 from 0.1 must reach high, but got 0.9"),
        ("{low: 1, high: 8, step: 0}", 30, "parameters.x.step must be a number above 0"),
        ("{values: [1], env: 1}", 25, "parameters.x.env must be true or false"),
        ("{values: [1], whn: a}", 20, "unknown key `whn` in parameters.x\n    hint: did you mean `when`?"),
        ("{values: [1], when: [a]}", 26, "parameters.x.when must be an expression"),
    ],
)
def test_a_bad_domain_is_told(domain, column, expected):
    found = faults(HEAD + f"parameters:\n  x: {domain}\n")
    assert (found[0].line, found[0].column) == (6, column)
    assert str(found[0]).split(": ", 1)[1].startswith(expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "cuda-graph",
            "a parameter's name holds letters, digits and _ only, but got `cuda-graph`\n    hint: write",
        ),
        ("'a b'", "a parameter's name holds letters"),
        ("not", "a parameter may not have the name of a word of the expressions"),
        ("tp_size", "`tp_size` is a parameter, and also fixed in engine.args"),
        ("HF_TOKEN", "`HF_TOKEN` looks like a secret"),
    ],
)
def test_a_bad_name_of_a_parameter_is_told(name, expected):
    assert only(HEAD + f"parameters:\n  {name}: [1]\n").startswith(f"s.yaml:6:3: {expected}")


@pytest.mark.parametrize(
    ("when", "column", "expected"),
    [
        ("algorithm = EAGLE3", 33, "x.when: `=` has no meaning here, in `algorithm = EAGLE3`"),
        ("algorithm ==", 35, "x.when: a value or a name must follow, in"),
        (
            "algoritm != unset",
            23,
            "x.when: `algoritm` is no parameter and no fixed argument\n    hint: did you mean `al",
        ),
        ("algorithm == EAGLE", 36, "x.when: `algorithm` is never `EAGLE`\n    hint: did you mean `EAGLE3`?"),
        ("algorithm != 'EAGLE'", 36, "x.when: `algorithm` is never `EAGLE`"),
        ("EAGLE == algorithm", 23, "x.when: `algorithm` is never `EAGLE`"),
        ('"algorithm in [unset, NGRAM]"', 45, "x.when: `algorithm` is never `NGRAM`"),
        ("topk == 3", 31, "x.when: `topk` is never `3`\n    hint: its values: 1, 2, 4"),
        ("share == 1", 32, "x.when: `share` is never `1`\n    hint: it goes from 0.5 to 0.9"),
        ("overlap == on", 34, "x.when: `overlap` is never `on`\n    hint: its values: true, false"),
        ("overlap == 1", 34, "x.when: `overlap` is never `1`"),
        ("topk > tokp", 30, "x.when: `tokp` is no parameter"),
        (
            "topk-1 > 1",
            23,
            "x.when: `topk-1` is no parameter and no fixed argument\n    hint: put blanks",
        ),
        ("algorithm > 1", 23, "x.when: `algorithm` is never a number"),
        ("overlap + 1 > 1", 23, "x.when: `overlap` is never a number"),
        ("topk > 'a'", 30, "x.when: a number, or a name that holds one, must stand here"),
        ("topk > unset", 30, "x.when: a number, or a name that holds one, must stand here"),
        ("topk", 23, "x.when: `topk` is never true or false"),
        ("not foo", 27, "x.when: `foo` is no parameter"),
        ("overlap and 1", 35, "x.when: a condition is a comparison"),
        ("topk + 1", 23, "x.when: a condition is a comparison"),
        ("5", 23, "x.when: a condition is a comparison"),
        ("x == 1", 23, "conditions go round in a circle: x → x"),
    ],
)
def test_a_bad_condition_is_told_at_the_very_word(when, column, expected):
    line, found, told = in_space(f"  x: {{values: [1], when: {when}}}\n")
    assert (line, found) == (1, column + 3)
    assert told.removeprefix("parameters.").startswith(expected)


def test_the_column_counts_from_the_file_in_folded_quoted_and_block_text():
    text = """\
constraints:
  - "topk >
       nope"
  - 'share < 1 and

     wrong > 1'
  - >
    topk < 3 and
    bad > 1
  - topk < 3
    or worse > 1
  - |-
      worst > 1
  - "\\x74opk > best"
"""
    start = (HEAD + SPACE).count("\n")
    found = [(fault.line - start, fault.column, fault.rule.split("`")[1]) for fault in faults(HEAD + SPACE + text)]
    assert found == [
        (3, 8, "nope"),
        (6, 6, "wrong"),
        (9, 5, "bad"),
        (11, 8, "worse"),
        (13, 7, "worst"),
        (14, 16, "best"),
    ]


def test_a_circle_of_conditions_is_told_once_with_its_path():
    text = HEAD + (
        "parameters:\n  free: {values: [1], when: a == 1}\n  a: {values: [1], when: b == 1}\n"
        "  b: {values: [1], when: c == 1}\n  c: {values: [1], when: a == 1}\n"
    )
    told = only(text)
    assert told.startswith("s.yaml:7:26: conditions go round in a circle: a → b → c → a")


def test_two_circles_are_told_both():
    text = HEAD + (
        "parameters:\n  a: {values: [1], when: b == 1}\n  b: {values: [1], when: a == 1}\n"
        "  c: {values: [1], when: d == 1}\n  d: {values: [1], when: c == 1}\n"
    )
    assert [fault.rule.rsplit(": ", 1)[1] for fault in faults(text)] == ["a → b → a", "c → d → c"]


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("constraints: topk < 1", (1, 14), "constraints must be a list, but got `topk < 1`"),
        ("constraints: [topk < 1, 'nope < 1']", (1, 26), "constraints.1: `nope` is no parameter"),
        ("constraints: [null]", (1, 15), "constraints.0 must be an expression"),
        ("baseline: [1]", (1, 11), "baseline must be a mapping of keys to values, but got a list"),
        ("baseline: {topk: [1]}", (1, 18), "baseline.topk must be one value"),
        ("baseline: {topk: }", (1, 17), "baseline.topk must be a value, but got nothing (null)"),
        (
            "baseline: {algoritm: x}",
            (1, 12),
            "`algoritm` is no parameter, but almost one\n    hint: did you mean `algo",
        ),
        ("baseline: {tp-size: 4}", (1, 12), "unknown name `tp-size`\n    hint: names are written with _: `tp_size`"),
        ("known_good: {topk: 1}", (1, 13), "known_good must be a list, but got a mapping"),
        ("known_good: [3]", (1, 14), "known_good.0 must be a mapping of parameters to values, but got `3`"),
        ("known_good: [{algoritm: 1}]", (1, 15), "known_good.0 names `algoritm`, which is no parameter"),
        (
            "known_good: [{algorithm: EAGLE, share: 0.5}]",
            (1, 26),
            "known_good.0.algorithm must be one of the parameter's values, but got `EAGLE`\n    hint: its values",
        ),
        (
            "known_good: [{algorithm: unset, share: 1}]",
            (1, 40),
            "known_good.0.share must be one of the parameter's values, but got `1.0`\n    hint: it goes from 0.5",
        ),
        (
            "known_good: [{algorithm: EAGLE3, topk: 1}]",
            (1, 14),
            "known_good.0 must name every parameter that is active in it; missing: overlap, share",
        ),
        (
            "constraints: [share > 0.6]\nknown_good: [{algorithm: unset, share: 0.5}]",
            (2, 14),
            "known_good.0 breaks the constraint `share > 0.6`, but got algorithm=unset, share=0.5",
        ),
    ],
)
def test_a_bad_constraint_or_configuration_is_told(text, place, expected):
    line, column, told = in_space(text + "\n")
    assert (line, column) == place
    assert told.startswith(expected)


def test_all_faults_are_told_at_once_in_the_order_of_the_file():
    text = """\
study: 1
extra: 1
engine: {name: sglang}
parameters: {a: [1, 1], b: {low: 2, high: 1}}
constraints: [c > 1]
workload: {concurrency: {0: 1}}
budget: {hours: x}
"""
    found = faults(text)
    assert [fault.line for fault in found] == [1, 2, 3, 4, 4, 5, 6, 7]
    assert all(fault.file == "s.yaml" for fault in found)


def test_one_bad_parameter_brings_no_faults_of_those_that_speak_of_it():
    text = HEAD + "parameters:\n  a: []\n  b: {values: [1], when: a == 3}\nconstraints: [a > 1]\nbaseline: {a: 3}\n"
    assert "must list at least one value" in only(text)


def test_the_message_counts_the_faults_and_the_program_ends_with_two():
    with pytest.raises(InputError) as raised:
        spacefile.load_text("{}", "s.yaml")
    assert str(raised.value).endswith("5 faults; nothing was started")
    assert raised.value.exit_code == 2
