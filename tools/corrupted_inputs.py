#!/usr/bin/env python3
"""Gives the program every kind of corrupted input and writes what it answers into docs/corrupted-inputs.md.

Every answer must be a sentence (a line that starts with `norma: error:`, `warning:` or `note:`) with the exit code that is
written here, and nothing may be left half-written; else this script fails. What depends on the machine or the moment (digests,
processes, host, times) is shown as `…`.

Usage: python3 tools/corrupted_inputs.py [--check] [--program PATH]
  --check    changes nothing, and exits 1 where the page differs from what the program says
  --program  the norma to ask; without it build/cpu/bin/norma
"""

import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

root = pathlib.Path(__file__).resolve().parent.parent
page = root / "docs" / "corrupted-inputs.md"
NOBODY = 65534
RECIPE = """model = { layers = 1, width = 8, heads = 2, context = 8 }
train = { steps = 4, batch = 2, log_every = 1, checkpoint_every = 2, threads = 1 }
"""
HEAD = """# Corrupted inputs and the sentence each one gets

Written by `tools/corrupted_inputs.py`, which gives each of these to the program; a test checks that the page is true. Exit code
2: the request was wrong; 1: something failed; 0: the program went on, and said what it left out. A file system without space
(`ENOSPC`) is tried on a small disk of its own by `TrainFullDisk` in `tests/battery`.
"""


def text_of(words=400):
    return "".join("sun " if i * i % 7 < 3 else "moon " for i in range(words))


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def cut(path, share=0.5):
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


def empty(path):
    path.write_bytes(b"")


def safetensors(header, data=b"", length=None):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


class Bench:
    """A temporary folder in which the program runs, so that paths in its sentences are short."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.rows = []
        self.part = ""

    def path(self, name):
        return self.folder / name

    def start(self, arguments, **more):
        command = [self.program, *arguments.split()]
        return subprocess.Popen(
            command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **more
        )

    def run(self, arguments, **more):
        process = self.start(arguments, **more)
        said = process.communicate(timeout=120)[1].decode("utf-8", "replace")
        return process.returncode, said

    def must(self, arguments):
        code, said = self.run(arguments)
        if code != 0:
            sys.exit(f"corrupted_inputs.py: norma {arguments} failed: {said}")

    def show(self, what, arguments, code, said, wanted, kind):
        sentences = [line for line in said.splitlines() if line.startswith(f"norma: {kind}: ")]
        if code != wanted or not sentences:
            sys.exit(f"corrupted_inputs.py: {what}: norma {arguments}: exit code {code}, {wanted} was wanted:\n{said[:2000]}")
        self.rows.append((self.part, what, arguments, code, self.steady(sentences[-1])))

    def steady(self, sentence):
        sentence = re.sub(r"\b[0-9a-f]{32}\b", "…", sentence)
        sentence = re.sub(r"step-\d+\.tmp\.[\d.]+", "step-….tmp.…", sentence)
        sentence = re.sub(r"process \d+ on host \S+ since [^.;]*", "process … on host … since …", sentence)
        return sentence.replace("|", "\\|").replace("<", "&lt;")

    def refused(self, what, arguments, wanted=1, **more):
        out = re.search(r"--out (\S+)", arguments)
        fresh = out is not None and not self.path(out[1]).exists()
        code, said = self.run(arguments, **more)
        self.show(what, arguments, code, said, wanted, "error")
        if fresh and self.path(out[1]).exists():
            sys.exit(f"corrupted_inputs.py: {what}: norma {arguments}: {out[1]} was left behind")

    def accepted(self, what, arguments):
        code, said = self.run(arguments)
        if code != 0 or "norma: error" in said:
            sys.exit(f"corrupted_inputs.py: {what}: norma {arguments}: exit code {code}:\n{said[:2000]}")
        self.rows.append((self.part, what, arguments, code, "(nothing is wrong with it: every byte has a token)"))

    def went_on(self, what, arguments, kind="note"):
        code, said = self.run(arguments)
        self.show(what, arguments, code, said, 0, kind)

    def copy(self, source, name):
        shutil.rmtree(self.path(name), ignore_errors=True)
        shutil.copytree(self.path(source), self.path(name))
        return self.path(name)


def texts(bench):
    bench.part = "Texts"
    bench.path("empty.txt").write_bytes(b"")
    bench.path("one.txt").write_bytes(b"a")
    bench.path("binary.bin").write_bytes(bytes(range(256)) * 40)
    bench.path("torn.jsonl").write_text('{"text": "sun"}\n{"text": "mo')
    bench.path("cut.txt.gz").write_bytes(bytes.fromhex("1f8b08000000000000034b"))
    bench.refused("empty", "train r.toml data.path=empty.txt --out run", 2)
    bench.refused("one token", "train r.toml data.path=one.txt --out run", 2)
    bench.refused("absent", "train r.toml data.path=absent.txt --out run", 2)
    bench.refused("binary", "train r.toml data.path=binary.bin --out run", 2)
    bench.refused("empty, for a data set", "data text empty.txt --tokenizer byte --out made", 2)
    bench.went_on("binary, for a data set", "data text binary.bin --tokenizer byte --out made-binary", "warning")
    bench.refused("JSONL that ends in a line", "data text torn.jsonl --tokenizer byte --out made")
    bench.refused("compressed and cut off", "data text cut.txt.gz --tokenizer byte --out made")
    # Texts that are odd and no mistake: every byte has a token.
    bench.path("broken.txt").write_bytes(text_of().encode() + b"\xff\xfe\xc3" + text_of().encode())
    bench.path("line.txt").write_text("x" * (32 << 20))
    for what, name in {"broken UTF-8": "broken.txt", "one line of 32 MiB": "line.txt"}.items():
        bench.accepted(what, f"data text {name} --tokenizer byte --out made-{name}")
        bench.accepted(what, f"train r.toml data.path={name} --out run-{name}")


def damages(name):
    """Every damage of a file: what to call it, and what does it."""
    return {f"{name}, truncated": cut, f"{name}, zero length": empty, f"{name}, one bit flipped": lambda path: flip(path, 100)}


def shards(bench):
    bench.part = "Data sets"
    for name in ["train.bin", "dataset.json", "tokenizer.json"]:
        for what, damage in damages(name).items():
            damage(bench.copy("set", "damaged") / name)
            bench.refused(what, "train r.toml data.path=damaged --out run")
    bench.refused("ids beyond the model's vocabulary", "train r.toml data.path=set model.vocab=16 --out run", 2)


def checkpoints(bench):
    bench.part = "Checkpoints and runs"
    for name in ["model.safetensors", "optimizer.safetensors", "MANIFEST.json"]:
        for what, damage in damages(name).items():
            damage(bench.copy("good", "run") / "checkpoints" / "step-00000004" / name)
            bench.went_on(what, "eval run")
    run = bench.copy("good", "run")
    for checkpoint in (run / "checkpoints").iterdir():
        cut(checkpoint / "model.safetensors")
    bench.refused("every checkpoint truncated", "eval run")
    for what, damage in list(damages("tokenizer.json").items())[:2]:
        damage(bench.copy("good", "run") / "tokenizer.json")
        bench.refused(what, "sample run --tokens 3")
    flip(bench.copy("good", "run") / "tokenizer.json", 0)
    bench.refused("tokenizer.json, one bit flipped", "sample run --tokens 3")
    cut(bench.copy("good", "run") / "recipe.toml")
    bench.refused("recipe.toml, truncated", "eval run", 2)
    run = bench.copy("good", "run")
    (run / "DONE").unlink()
    again = "train r.toml data.path=book.txt --out run --resume"
    bench.refused("resumed with another scheme", again + " scheme.base=ngpt", 2)
    shutil.rmtree(run / "checkpoints")
    shutil.copytree(bench.path("other") / "checkpoints", run / "checkpoints")
    bench.refused("a checkpoint of another scheme in the run", again)
    bench.path("book2.txt").write_text(text_of()[::-1])
    (bench.copy("good", "run") / "DONE").unlink()
    bench.refused("resumed with other data", again.replace("book.txt", "book2.txt"), 2)
    bench.refused("no run", "eval absent", 2)
    bench.refused("a run is there already", "train r.toml data.path=book.txt --out good", 2)


def exports(bench):
    bench.part = "Models of other programs"
    bench.must("train r.toml data.path=book.txt scheme.base=pre-ln model.bias=true --out gpt")
    bench.must("export gpt hf")
    for name in ["config.json", "model.safetensors"]:
        for what, damage in list(damages(name).items())[:2]:
            damage(bench.copy("hf", "from") / name)
            bench.refused(what, "import from --out run")
    row = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    hostile = {
        "a header of 2^63 bytes": safetensors(b"{}", length=1 << 63),
        "no JSON": safetensors(b"[[[[[[[["),
        "a name twice": safetensors(b'{"a":%b,"a":%b}' % (json.dumps(row).encode(), json.dumps(row).encode()), bytes(8)),
        "offsets beyond the file": safetensors({"a": row | {"data_offsets": [0, 1 << 40], "shape": [1 << 38]}}, bytes(8)),
        "a product of extents that wraps": safetensors({"a": row | {"shape": [1 << 33, 1 << 33]}}, bytes(8)),
        "tensors that overlap": safetensors({"a": row, "b": row}, bytes(8)),
        "bytes that belong to nobody": safetensors({"a": row}, bytes(24)),
        "an unknown type": safetensors({"a": row | {"dtype": "F33"}}, bytes(8)),
    }
    for what, data in hostile.items():
        (bench.copy("hf", "from") / "model.safetensors").write_bytes(data)
        bench.refused("model.safetensors: " + what, "import from --out run")


def nobody():
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))


def wait_for(path):
    end = time.monotonic() + 60
    while not path.exists():
        if time.monotonic() > end:
            sys.exit(f"corrupted_inputs.py: {path} never came")
        time.sleep(0.01)


def disks(bench):
    bench.part = "Disks"
    train = "train r.toml data.path=book.txt --out "
    code, said = bench.run(train + "limited", preexec_fn=small_files)
    bench.show("a limit on file sizes (`ulimit -f`), while it trains", train + "limited", code, said, 1, "warning")
    bench.show("the same, at the last save", train + "limited", code, said, 1, "error")
    bench.path("closed").mkdir(mode=0o555)
    bench.refused("a read-only folder", train + "closed/run", preexec_fn=nobody)
    bench.refused("a file in the place of a folder", train + "book.txt/run")
    long = train + "busy train.steps=1000000 train.checkpoint_every=1 train.keep_last=1000"
    first = bench.start(long)
    wait_for(bench.path("busy/checkpoints/step-00000003"))
    bench.refused("two trainings into one folder", long + " --resume")
    bench.path("busy").rename(bench.path("moved"))
    time.sleep(0.5)
    first.send_signal(signal.SIGTERM)
    said = first.communicate(timeout=60)[1].decode()
    bench.show("the folder vanishes, while it trains", long, first.returncode, said, 1, "warning")
    bench.show("the same, at the last save", long, first.returncode, said, 1, "error")


def written(rows):
    text = HEAD
    part = ""
    for row in rows:
        if row[0] != part:
            part = row[0]
            text += f"\n## {part}\n\n| what | `norma …` | exit | sentence |\n|---|---|---|---|\n"
        text += f"| {row[1]} | `{row[2]}` | {row[3]} | {row[4]} |\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--program", default=str(root / "build" / "cpu" / "bin" / "norma"))
    options = parser.parse_args()
    if not pathlib.Path(options.program).exists():
        sys.exit(f"corrupted_inputs.py: there is no {options.program}; build it, or name another with --program")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        bench = Bench(str(pathlib.Path(options.program).resolve()), pathlib.Path(folder))
        bench.path("book.txt").write_text(text_of())
        bench.path("r.toml").write_text(RECIPE)
        bench.must("data text book.txt --tokenizer byte --out set")
        bench.must("train r.toml data.path=book.txt --out good")
        bench.must("train r.toml data.path=book.txt scheme.base=ngpt --out other")
        for part in [texts, shards, checkpoints, exports, disks]:
            part(bench)
        fresh = written(bench.rows)
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    if fresh == old:
        print(f"corrupted inputs ok ({len(bench.rows)} sentences)")
    elif options.check:
        changed = [new for new in fresh.splitlines() if new not in old.splitlines()]
        sys.exit("\n".join(["docs/corrupted-inputs.md differs; run tools/corrupted_inputs.py. New lines:", *changed[:20]]))
    else:
        page.write_text(fresh, encoding="utf-8")
        print(f"docs/corrupted-inputs.md written ({len(bench.rows)} sentences)")


if __name__ == "__main__":
    main()
