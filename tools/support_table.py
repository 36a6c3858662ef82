#!/usr/bin/env python3
"""Writes docs/schemes/support.md: how far each scheme was compared with its golden, and which numbered properties it has.

Errors come from what test_parity prints, properties from the pages in docs/schemes, and whether a property has a test from
the names of tests. Run by hand.

Usage: build/cpu/bin/test_parity | python3 tools/support_table.py
"""

import pathlib
import re
import sys

NUMBER = r"([0-9.]+e[+-][0-9]+|inf|nan)"
ONCE = re.compile(rf"^(\S+/\S+) +f64 forward {NUMBER} gradients {NUMBER} +f32 forward {NUMBER} gradients {NUMBER}", re.MULTILINE)
TEN_STEPS = re.compile(rf"^(\S+/\S+) +ten steps: f64 losses {NUMBER} parameters {NUMBER} +f32 losses {NUMBER}", re.MULTILINE)
FAILED = re.compile(r"^\[  FAILED  \] Goldens/SchemeParity\.(\w+)/(\w+)", re.MULTILINE)
ENDED = re.compile(r"^\[==========\] \d+ tests? from .* ran\.", re.MULTILINE)
TEST = re.compile(r"\bTEST(?:_F|_P)?\(([^)]*)\)")

root = pathlib.Path(__file__).resolve().parent.parent
pages = root / "docs" / "schemes"


def numbers_with_tests():
    found = set()
    for path in (root / "tests").rglob("*_test.cpp"):
        for name in TEST.findall(path.read_text(encoding="utf-8")):
            found.update(int(number) for number in re.findall(r"\bP(\d+)_", name))
    return found


def numbers_on_page(name):
    path = pages / f"{name}.md"
    section = re.search(r"^## Invariants we test\n(.*?)^## ", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return sorted({int(number) for number in re.findall(r"\bP(\d+)\b", section[1])}) if section else []


def results(said):
    """golden -> its six errors, in the order of the table; `fails` behind those whose test failed."""
    failed = {}
    for test, name in FAILED.findall(said):
        failed.setdefault(name, set()).add(test)
    once = {match[0]: match[1:] for match in ONCE.findall(said)}
    ten = {match[0]: (match[1], match[3]) for match in TEN_STEPS.findall(said)}
    table = {}
    for golden in sorted(once.keys() | ten.keys()):
        tests = failed.get(re.sub("[-/]", "_", golden), set())
        cells = [*once.get(golden, "––––"), *ten.get(golden, "––")]
        if tests & {"SameParameters", "ForwardAndGradients"}:
            cells[:4] = [f"{cell} fails" for cell in cells[:4]]
        if "TenSteps" in tests:
            cells[4:] = [f"{cell} fails" for cell in cells[4:]]
        table[golden] = cells
    return table


def listed(numbers):
    return ", ".join(f"P{number}" for number in numbers) or "–"


def rows_of_schemes(errors, tested):
    for path in sorted((root / "schemes").glob("*.toml")):
        name = path.stem
        cells = errors.get(f"schemes/{name}", ["–"] * 6)
        numbers = numbers_on_page(name)
        with_test = listed(n for n in numbers if n in tested)
        without = listed(n for n in numbers if n not in tested)
        yield f"| [{name}]({name}.md) | {' | '.join(cells)} | {with_test} | {without} |"


def rows_of_others(errors):
    names = {f"schemes/{path.stem}" for path in (root / "schemes").glob("*.toml")}
    for golden, cells in errors.items():
        if golden not in names:
            yield f"| {golden} | {' | '.join(cells)} |"


def page(errors, tested):
    columns = "f64 forward | f64 gradients | f32 forward | f32 gradients | ten losses, f64 | ten losses, f32"
    return "\n".join([
        "# How each scheme was checked",
        "",
        "Made by `tools/support_table.py` from what `test_parity` prints; not written by hand.",
        "",
        "The errors are relative, of a small model with random parameters against its golden: logits and losses (forward), the",
        "worst gradient of any parameter, and the losses of ten AdamW steps. The limits stand in `tests/parity/schemes_test.cpp`;",
        "a cell that says *fails* is beyond them. – means that nothing was compared. Properties are those that the scheme's",
        "page names; a number has a test where a test's name carries it, which says that the test exists, not that it runs on",
        "this very scheme.",
        "",
        f"| scheme | {columns} | properties with a test | and without |",
        "|---|" + "---|" * 8,
        *rows_of_schemes(errors, tested),
        "",
        "## Goldens beyond the catalogue",
        "",
        "Schemes with one thing changed. The test does not hold `x-bn-position` to the limit of ten losses in f32: statistics over",
        "three samples amplify rounding.",
        "",
        f"| golden | {columns} |",
        "|---|" + "---|" * 6,
        *rows_of_others(errors),
        "",
    ])


def main():
    if len(sys.argv) > 1 or sys.stdin.isatty():
        sys.exit("support_table.py: give it the output of test_parity: build/cpu/bin/test_parity | python3 tools/support_table.py")
    said = sys.stdin.read()
    if not ENDED.search(said):
        sys.exit("support_table.py: this is not the whole output of test_parity; nothing was written")
    errors = results(said)
    if not errors:
        sys.exit("support_table.py: no golden is named in this output; nothing was written")
    (pages / "support.md").write_text(page(errors, numbers_with_tests()), encoding="utf-8")
    print(f"docs/schemes/support.md: {len(errors)} goldens")


if __name__ == "__main__":
    main()
