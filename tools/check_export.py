#!/usr/bin/env python3
"""Loads what `norma export --to hf` wrote with Hugging Face's transformers and compares.

  tools/check_export.py make FOLDER [--program build/cpu/bin/norma]
      trains tiny models and exports them into FOLDER: GPT-2 (tanh and erf GELU, without biases, untied, padded vocabulary), Llama
      (interleaved and half-split rotation, grouped heads, tied head, wide heads, biases), with bytes and with a trained BPE.
      Each export comes with ids and the logits Norma computes for them, and with texts and the ids Norma's tokenizer gives.
      Needs only Python and the program.

  tools/check_export.py compare FOLDER
      on a machine with PyTorch and transformers: prints the largest difference of logits for each export, which must be below
      1e-4, and whether AutoTokenizer gives the same ids and the same texts back. Exit status 1 when anything differs.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys

LIMIT = 1e-4
TEXTS = [
    "The sun, the moon and 21 stars.", " leading and trailing ", "a\n\n b\t\tc\r\n", "don't we'll I'VE", "naïve café ÅÄÖ", "日本語のテキスト",
    "Привет, мир!", "🙂🙃👩‍👩‍👧", "e\u0301 combining", "x\u00a0y\u2003z\u3000", "2024-11-15 3.14159", "<|endoftext|>", "<|endoftext|>a<|endoftext|>", "",
]

BASE = """
model = { layers = 2, width = 32, heads = 4, context = 64, ffn_width = 80 }
optim = { lr = 2e-2 }
train = { steps = 30, batch = 4, log_every = 1000 }
"""
GPT2 = ["scheme.base=pre-ln", "model.bias=true", "model.ffn=gelu_tanh"]
LLAMA = ["scheme.base=pre-rms"]
CASES = {  # name: settings
    "gpt2": GPT2,
    "gpt2-erf": ["scheme.base=pre-ln", "model.bias=true"],
    "gpt2-no-bias": ["scheme.base=pre-ln"],
    "gpt2-untied": [*GPT2, "model.tied=false"],
    "gpt2-eps": [*GPT2, *(f"scheme.{site}.eps=1e-3" for site in ("attn_pre", "ffn_pre", "final"))],
    "gpt2-padded": [*GPT2, "model.vocab=384"],
    "llama-interleaved": LLAMA,
    "llama-half-split": [*LLAMA, "model.rope=half_split"],
    "llama-grouped-tied": [*LLAMA, "model.kv_heads=2", "model.tied=true"],
    "llama-wide-heads": [*LLAMA, "model.head_width=16", "model.rope_base=500000"],
    "llama-biases-geglu": [*LLAMA, "model.bias=true", "model.ffn=geglu"],
    "llama-eps": [*LLAMA, *(f"scheme.{site}.eps=1e-3" for site in ("attn_pre", "ffn_pre", "final"))],
}
BPE = {"gpt2-padded", "llama-grouped-tied"}  # with a trained BPE of 300 ids; the others are of bytes


def norma(program, *arguments, text=None):
    done = subprocess.run([program, *map(str, arguments)], input=text, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"norma {' '.join(map(str, arguments))}: {done.stderr.decode()}")
    return done.stdout


def encode(program, tokenizer, text):
    ids = norma(program, "tokenizer", "encode", "--tokenizer", tokenizer, "--specials", "-", text=text.encode())
    return [int(word) for word in ids.split()]


def make(folder, program):
    folder.mkdir(parents=True)
    work = folder / "work"
    work.mkdir()
    (work / "recipe.toml").write_text(BASE)
    words = "the sun and the moon, 21 stars; don't we'll naïve café 日本 мир 🙂".split()
    (work / "book.txt").write_text(" ".join(words[(i * i + i // 7) % len(words)] for i in range(6000)))
    norma(program, "tokenizer", "train", work / "book.txt", "--vocab", 300, "--out", work / "bpe.json")
    for name, settings in CASES.items():
        run = work / name
        if name in BPE and not any(setting.startswith("model.vocab") for setting in settings):
            settings = [*settings, "model.vocab=300"]
        norma(program, "train", work / "recipe.toml", f"data.path={work / 'book.txt'}", *settings, "--out", run)
        if name in BPE:
            (run / "tokenizer.json").write_bytes((work / "bpe.json").read_bytes())
        norma(program, "export", run, "--to", "hf", folder / name, "--with-logits")
        ids = [[text, encode(program, folder / name / "tokenizer.json", text)] for text in TEXTS]
        (folder / name / "texts.json").write_text(json.dumps(ids))
        print(f"made {name}")


def read_tensors(path):
    """Safetensors in a few lines, so that nothing of ours is read by the library under test."""
    import numpy

    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    kinds = {"F32": "<f4", "I32": "<i4"}
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, stop = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = numpy.frombuffer(raw[start:stop], kinds[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def compare_logits(folder):
    import torch
    import transformers

    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    strange = {key: sorted(names) for key, names in info.items() if names and key in ("missing_keys", "unexpected_keys", "mismatched_keys")}
    ours = read_tensors(folder / "norma-logits.safetensors")
    with torch.no_grad():
        theirs = model.eval().float()(torch.from_numpy(ours["ids"].astype("int64"))).logits
    return type(model).__name__, float((theirs - torch.from_numpy(ours["logits"].copy())).abs().max()), strange


def compare_texts(folder):
    """The texts on which the tokenizers disagree."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    wrong = []
    for text, ids in json.loads((folder / "texts.json").read_text()):
        theirs = tokenizer(text, add_special_tokens=False)["input_ids"]
        back = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
        if theirs != ids or back != text:
            wrong.append(f"{text!r}: ours {ids}, theirs {theirs}, back {back!r}")
    return type(tokenizer).__name__, wrong


def compare(folder):
    import torch
    import transformers

    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    failed = False
    worst = 0.0
    for case in sorted(path for path in folder.iterdir() if (path / "norma-logits.safetensors").exists()):
        kind, gap, strange = compare_logits(case)
        tokenizer, wrong = compare_texts(case)
        good = gap <= LIMIT and not strange and not wrong
        failed |= not good
        worst = max(worst, gap)
        print(f"{'ok  ' if good else 'FAIL'} {case.name:22} {kind:18} logits {gap:.2e}  {tokenizer} {len(wrong)} texts differ")
        for line in [*wrong, *(f"{key}: {names}" for key, names in strange.items())]:
            print(f"       {line}")
    print(f"largest difference of logits {worst:.2e} (limit {LIMIT:.0e})")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["make", "compare"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--program", default="build/cpu/bin/norma")
    given = parser.parse_args()
    if given.action == "compare":
        sys.exit(compare(given.folder))
    make(given.folder, given.program)


main()
