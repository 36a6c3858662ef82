#!/usr/bin/env python3
"""Rewrites the generated parts of docs/schemes from what the program says about its schemes.

A generated part lies between the lines `<!-- generated: norma ... -->` and `<!-- end -->`; the rest of a page is written by
hand and stays. Every scheme needs a page with the headings below, in this order.

Usage: python3 tools/scheme_docs.py [--check] [--program PATH]
  --check    changes nothing, names the pages that differ, are missing or have no scheme, and exits 1 if there are any
  --program  the norma to ask; without it build/cpu/bin/norma
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

HEADINGS = [
    "Where the norms sit",
    "One block",
    "Parameters and init",
    "What it asks of the optimizer",
    "Invariants we test",
    "Source and our deviations",
    "How it fails",
    "Run it",
    "What we measured",
]
OTHER_PAGES = {"README", "support"}
PART = re.compile(r"(<!-- generated: norma ([^\n]*?) -->\n).*?(<!-- end -->\n)", re.DOTALL)

root = pathlib.Path(__file__).resolve().parent.parent
folder = root / "docs" / "schemes"


def ask(program, arguments):
    answer = subprocess.run([program, *arguments.split()], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        sys.exit(f"scheme_docs.py: norma {arguments} failed: {answer.stderr.strip()}")
    return answer.stdout


def catalogue_table(lines):
    rows = ["| scheme | idea | source |", "|---|---|---|"]
    for line in lines:
        scheme = {key: value.replace("|", "\\|") for key, value in json.loads(line).items()}
        rows.append("| [{name}]({name}.md) | {idea} | {source} |".format(**scheme))
    return "\n".join(rows) + "\n"


def generated(program, arguments):
    said = ask(program, arguments)
    return catalogue_table(said.splitlines()) if arguments == "schemes --json" else said


def complaints(page, text, wanted):
    """What is wrong with the written part of a page; `wanted` is the command whose answer it must show."""
    if [match[1] for match in PART.findall(text)] != [wanted]:
        yield f"{page}: has no part `<!-- generated: norma {wanted} -->` … `<!-- end -->`, or more than this one"
    if page != "README" and re.findall(r"^## (.*)$", text, re.MULTILINE) != HEADINGS:
        yield f"{page}: its headings are not {', '.join(HEADINGS)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--program", default=str(root / "build" / "cpu" / "bin" / "norma"))
    options = parser.parse_args()
    if not pathlib.Path(options.program).exists():
        sys.exit(f"scheme_docs.py: there is no {options.program}; build it, or name another with --program")

    names = [json.loads(line)["name"] for line in ask(options.program, "schemes --json").splitlines()]
    wanted = {"README": "schemes --json", **{name: f"schemes {name} --markdown" for name in names}}
    wrong = []
    for page, arguments in wanted.items():
        path = folder / f"{page}.md"
        if not path.exists():
            wrong.append(f"{page}: has no page docs/schemes/{page}.md")
            continue
        text = path.read_text(encoding="utf-8")
        found = list(complaints(page, text, arguments))
        wrong += found
        if found:
            continue
        fresh = PART.sub(lambda part: part[1] + generated(options.program, part[2]) + part[3], text)
        if fresh == text:
            continue
        if options.check:
            wrong.append(f"{page}: differs from what norma {arguments} says; run tools/scheme_docs.py")
        else:
            path.write_text(fresh, encoding="utf-8")
            print(f"docs/schemes/{page}.md rewritten")
    for path in sorted(folder.glob("*.md")):
        if path.stem not in wanted and path.stem not in OTHER_PAGES:
            wrong.append(f"{path.stem}: is a page without a scheme")
    if wrong:
        print("\n".join(wrong))
        sys.exit(1)
    print(f"scheme docs ok ({len(wanted)} pages)")


if __name__ == "__main__":
    main()
