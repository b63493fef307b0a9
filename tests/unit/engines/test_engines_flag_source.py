from __future__ import annotations

from autotune.engines.dialect.flag_source import from_listing, table_of

CALLS = """
CHOICES = ["a", "b"]
def add(parser):
    parser.add_argument("--tensor-parallel-size", "--tp-size", type=int, default=1)
    parser.add_argument("--backend", type=str, choices=CHOICES + ["c"])
    parser.add_argument("--computed", choices=sorted(find()))
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--trust", action="store_true")
    parser.add_argument("--fuse", action=argparse.BooleanOptionalAction)
    parser.add_argument("--old", action=DeprecatedStoreTrueAction, new_flag="--new")
    parser.add_argument("-x")
"""
FIELDS = """
class Spec:
    steps: A[Optional[int], "How many."] = None
    share: A[float | None, "A share."] = None
    sizes: A[Optional[List[int]], Arg(help="Sizes.")] = None
    on: A[bool, "A switch."] = False
    mode: A[Literal["x", "y"], Arg(help="Mode.")] = "x"
    number: A[Literal[1, 2], Arg(help="Number.")] = 1
    tokens: A[Optional[int], Arg(help="8k and the like.", type_parser=human_readable_int)] = None
    fused: A[Optional[bool], Arg(help="Either way.", action=argparse.BooleanOptionalAction)] = None
    path: A[Optional[str], Arg(help="Path.", aliases=["--draft"], cli_name="--draft-path")] = None
    hidden: A[bool, Arg(no_cli=True)] = False
    plain: int = 3
"""


def test_calls_of_add_argument_are_read() -> None:
    assert table_of("1.0", {"a": CALLS}, {})["flags"] == {
        "--tensor-parallel-size": {"kind": "int", "aliases": ["--tp-size"]},
        "--backend": {"kind": "text", "choices": ["a", "b", "c"]},
        "--computed": {"kind": "text"},
        "--sizes": {"kind": "ints"},
        "--trust": {"kind": "switch"},
        "--fuse": {"kind": "toggle"},
        "--old": {"kind": "switch"},
    }


def test_annotated_fields_are_read() -> None:
    assert table_of("1.0", {"a": FIELDS}, {})["flags"] == {
        "--steps": {"kind": "int"},
        "--share": {"kind": "float"},
        "--sizes": {"kind": "ints"},
        "--on": {"kind": "switch"},
        "--mode": {"kind": "text", "choices": ["x", "y"]},
        "--number": {"kind": "int", "choices": ["1", "2"]},
        "--tokens": {"kind": "text"},
        "--fused": {"kind": "toggle"},
        "--draft-path": {"kind": "text", "aliases": ["--draft"]},
    }


def test_a_module_that_cannot_be_parsed_is_left_out() -> None:
    table = table_of("1.0", {"a": CALLS, "b": "print 'x'"}, {})
    assert "--trust" in table["flags"]


def test_variables_are_found_where_they_are_read_and_not_in_comments() -> None:
    text = 'class E:\n    SGLANG_ONE = EnvBool(0)\nx = os.environ["SGLANG_TWO"]\ne.SGLANG_THREE.get()\n# SGLANG_FOUR\n'
    assert table_of("1.0", {}, {"a": text})["variables"] == ["SGLANG_ONE", "SGLANG_THREE", "SGLANG_TWO"]


def test_a_listing_of_flags_is_read() -> None:
    listing = [
        {"flag": "--steps", "type": "Optional[int]", "aliases": ["--s"]},
        {"flag": "--mode", "type": "Optional[Literal['x', 'y']]"},
        {"flag": "--sizes", "type": "int", "nargs": "+"},
        {"flag": "--trust", "default": False},
        {"flag": "--handler", "default": None},
    ]
    assert from_listing("1.0", listing)["flags"] == {
        "--handler": {"kind": "text"},
        "--mode": {"kind": "text", "choices": ["x", "y"]},
        "--sizes": {"kind": "ints"},
        "--steps": {"kind": "int", "aliases": ["--s"]},
        "--trust": {"kind": "switch"},
    }
