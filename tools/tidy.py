#!/usr/bin/env python3
"""Runs clang-tidy over the tree, several units at a time, and remembers what was clean.

  changed   units that differ from the merge base with origin/main (or from HEAD~1 where there is none, or on main
            itself), plus what is not committed; for a changed header, its own .cpp or the first unit that includes it
  all       every unit of the compile database

A unit that was clean is not read again until its text, a project header it includes, its compile command, .clang-tidy or
the version of clang-tidy changes. The cache is BUILD/../tidy-cache and may be deleted at any time.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("norma", "apps", "tests", "bench")
HEADERS = {".h", ".cuh"}
SKIPPED = 77
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.M)
# The compile database is g++'s: clang does not take this option, does not know all of its warnings, and its own are not
# what this tool is about.
UNKNOWN_OPTIONS = re.compile(r" -fno-extern-tls-init\b")
EXTRA = ["--extra-arg=-Wno-error", "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-unknown-attributes"]


def git(*words):
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def commit_to_compare(asked):
    if asked:
        return asked
    head = git("rev-parse", "-q", "--verify", "HEAD")
    base = git("merge-base", "HEAD", "origin/main")
    if base and head and base.strip() != head.strip():
        return base.strip()
    before = git("rev-parse", "-q", "--verify", "HEAD~1")
    return before.strip() if before else None


def changed_files(asked):
    """Paths that differ, or None where everything is new (no commit to compare with)."""
    base = commit_to_compare(asked)
    if base is None:
        return None
    listed = git("diff", "--name-only", "--diff-filter=d", base)
    if listed is None:
        sys.exit(f"tidy: git knows no commit {base}")
    fresh = git("ls-files", "--others", "--exclude-standard") or ""
    return {ROOT / line for line in (listed + fresh).splitlines()}


@functools.lru_cache(maxsize=None)
def text(path):
    return path.read_bytes()


@functools.lru_cache(maxsize=None)
def direct_headers(path):
    """Project headers that a file names. Generated ones are left out: they change with every commit."""
    found = []
    for name in INCLUDE.findall(text(path)):
        for folder in (ROOT, path.parent):
            candidate = (folder / name.decode()).resolve()
            if candidate.is_file() and ROOT in candidate.parents:
                found.append(candidate)
                break
    return tuple(found)


@functools.lru_cache(maxsize=None)
def all_headers(path):
    seen, todo = set(), [path]
    while todo:
        for header in direct_headers(todo.pop()):
            if header not in seen:
                seen.add(header)
                todo.append(header)
    return frozenset(seen)


def units_of_changes(changed, units):
    chosen = {unit for unit in units if unit in changed}
    for header in sorted(path for path in changed if path.suffix in HEADERS):
        own = header.with_suffix(".cpp")
        if own in units:
            chosen.add(own)
            continue
        if any(header in all_headers(unit) for unit in chosen):
            continue  # a unit already chosen reads it
        direct = [unit for unit in units if header in direct_headers(unit)]
        indirect = [unit for unit in units if header in all_headers(unit)]
        chosen.update((direct or indirect)[:1])
    return chosen


def rules_for(unit):
    """The .clang-tidy files above a unit."""
    folders = [folder for folder in unit.parents if folder == ROOT or ROOT in folder.parents]
    return [folder / ".clang-tidy" for folder in folders if (folder / ".clang-tidy").is_file()]


def fingerprint(unit, command, version):
    digest = hashlib.sha256()
    for part in (version, " ".join(EXTRA), command):
        digest.update(part.encode() + b"\0")
    for path in [unit, *sorted(all_headers(unit)), *rules_for(unit)]:
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + text(path) + b"\0")
    return digest.hexdigest()


def tidy(tool, database, unit):
    start = time.monotonic()
    done = subprocess.run(
        [tool, "-p", str(database.parent), "--quiet", *EXTRA, str(unit)], cwd=ROOT, capture_output=True, text=True
    )
    report = done.stdout.strip()
    if done.returncode and not report:
        report = done.stderr.strip()
    return done.returncode, report.replace(f"{ROOT}/", ""), time.monotonic() - start


def main():
    ask = argparse.ArgumentParser(
        prog="tools/tidy.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("which", choices=["changed", "all"])
    ask.add_argument("--build", default=ROOT / "build" / "cpu", type=pathlib.Path, help="folder of compile_commands.json")
    ask.add_argument("--jobs", default=min(2, os.cpu_count() or 1), type=int, help="units at a time")
    ask.add_argument("--base", help="commit to compare with")
    ask.add_argument("--list", action="store_true", help="print the units and leave")
    args = ask.parse_args()

    tool = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if not tool:
        print("tidy: clang-tidy-14 is not installed; get it with: apt-get install clang-tidy-14", file=sys.stderr)
        return SKIPPED
    database = args.build / "compile_commands.json"
    if not database.is_file():
        print(f"tidy: {database} is missing; configure first: cmake --preset cpu", file=sys.stderr)
        return 1
    commands = {}
    for entry in json.loads(database.read_text()):
        path = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        inside = path.is_file() and ROOT in path.parents
        if inside and path.relative_to(ROOT).parts[0] in FOLDERS:
            commands[path] = entry.get("command") or " ".join(entry["arguments"])
    units = sorted(commands)

    if args.which == "changed":
        changed = changed_files(args.base)
        chosen = sorted(units if changed is None else units_of_changes(changed, units))
    else:
        chosen = units
    if args.list:
        print("\n".join(str(unit.relative_to(ROOT)) for unit in chosen))
        return 0

    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout
    cache = args.build.parent / "tidy-cache"
    cache.mkdir(parents=True, exist_ok=True)
    for_clang = cache / "compile_commands.json"
    for_clang.write_text(UNKNOWN_OPTIONS.sub("", database.read_text()))
    marks = {unit: cache / fingerprint(unit, commands[unit], version) for unit in chosen}
    todo = [unit for unit in chosen if not marks[unit].exists()]

    start, bad = time.monotonic(), 0
    with concurrent.futures.ThreadPoolExecutor(max(1, args.jobs)) as pool:
        running = {pool.submit(tidy, tool, for_clang, unit): unit for unit in todo}
        for future in concurrent.futures.as_completed(running):
            unit = running[future]
            code, report, seconds = future.result()
            print(f"{'clean' if code == 0 else 'FAULT'}  {unit.relative_to(ROOT)}  {seconds:.1f} s", flush=True)
            if code == 0:
                marks[unit].touch()
            else:
                bad += 1
                print(report, flush=True)
    print(
        f"tidy {args.which}: {len(chosen)} units, {len(chosen) - len(todo)} known to be clean, {bad} with faults, "
        f"{time.monotonic() - start:.0f} s"
    )
    return 1 if bad else 0


sys.exit(main())
