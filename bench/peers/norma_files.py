"""Norma's files, as the peers need them: safetensors, run folders, token files and the order of windows.

Formats: docs/formats/checkpoint.md, docs/formats/dataset.md. Needs numpy alone.
"""

import json
import pathlib
import struct
import tomllib

import numpy

KINDS = {"F64": "<f8", "F32": "<f4", "I32": "<i4"}


def read_tensors(path):
    """Names to arrays, and the metadata."""
    raw = numpy.memmap(path, dtype="u1", mode="r")
    (length,) = struct.unpack("<Q", raw[:8].tobytes())
    header = json.loads(raw[8 : 8 + length].tobytes())
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        start, stop = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = numpy.frombuffer(raw[start:stop], KINDS[entry["dtype"]]).reshape(entry["shape"])
    return tensors, metadata


def write_tensors(path, tensors, metadata):
    """`tensors`: names to f32 arrays."""
    header, offset = {"__metadata__": metadata}, 0
    for name in sorted(tensors):
        end = offset + 4 * tensors[name].size
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            out.write(numpy.ascontiguousarray(tensors[name], "<f4").tobytes())


def open_weights(path):
    """Tensors and recipe of a run's newest checkpoint, of an exported folder or of a .safetensors file."""
    path = pathlib.Path(path)
    saved = sorted(path.glob("checkpoints/step-????????/model.safetensors"))
    if saved:
        return read_tensors(saved[-1])[0], tomllib.loads((path / "recipe.toml").read_text())
    tensors, metadata = read_tensors(path / "model.safetensors" if path.is_dir() else path)
    if "norma.recipe" not in metadata:
        raise SystemExit(f"{path} says nothing about its model: it has no metadata norma.recipe")
    return tensors, tomllib.loads(metadata["norma.recipe"])


def toml_text(tables):
    """Two levels of tables; words, numbers and truth values."""
    lines = []
    for table, entries in tables.items():
        lines.append(f"[{table}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in entries.items()]
        lines.append("")
    return "\n".join(lines)


def open_tokens(folder):
    """The training split of a folder that `norma data text` or nanoGPT made."""
    folder = pathlib.Path(folder)
    about = folder / "dataset.json"
    wide = about.exists() and json.loads(about.read_text())["token_bytes"] == 4
    return numpy.memmap(folder / "train.bin", dtype="<u4" if wide else "<u2", mode="r")


def write_tokens(folder, count, vocab, seed):
    """A nanoGPT folder whose text can be learned: half of the tokens follow from the one before, the others are common
    or rare as words are."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    draw = numpy.random.default_rng(seed)
    follows = draw.permutation(vocab)
    for name, tokens in (("train.bin", count), ("val.bin", max(4096, count // 100))):
        ids = numpy.minimum(draw.zipf(1.2, tokens) - 1, vocab - 1)
        free = draw.random(tokens) < 0.5
        free[0] = True
        places = numpy.arange(tokens)
        root = numpy.maximum.accumulate(numpy.where(free, places, 0))
        ids, distance = ids[root], places - root
        for step in range(distance.max()):
            ids = numpy.where(distance > step, follows[ids], ids)
        ids.astype("<u2").tofile(folder / name)


# ---- the order of training: norma/data/batches.cpp and norma/base/rng.h in Python ------------------------------------

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
SHIFT_STREAM, ORDER_STREAM = 0x5EED0001, 0x5EED0002


def random_block(seed, stream, position):
    """Philox 4x32-10."""
    k0, k1 = seed & M32, seed >> 32
    c = (position & M32, position >> 32, stream & M32, stream >> 32)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = ((p1 >> 32) ^ c[1] ^ k0, p1 & M32, (p0 >> 32) ^ c[3] ^ k1, p0 & M32)
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c


def permuted(at, size, seed, key):
    if size <= 1:
        return 0
    half = 1
    while (1 << (2 * half)) < size:
        half += 1
    mask, value = (1 << half) - 1, at
    while True:
        left, right = value >> half, value & mask
        for turn in range(6):
            stream = (ORDER_STREAM + (key << 32)) & M64
            mixed = random_block((seed + turn * 0x9E3779B97F4A7C15) & M64, stream, right)[0]
            left, right = right, left ^ (mixed & mask)
        value = (left << half) | right
        if value < size:
            return value


class Windows:
    """Windows of `length` tokens and their successors, in Norma's order."""

    def __init__(self, tokens, length, seed):
        self.tokens, self.length, self.seed = tokens, length, seed
        self.per_epoch = (len(tokens) - length) // length
        if self.per_epoch < 1:
            raise SystemExit(f"{len(tokens)} tokens are too few for windows of {length}")

    def start_of(self, sample):
        epoch, at = divmod(sample, self.per_epoch)
        late = random_block(self.seed, SHIFT_STREAM, epoch // 4)[epoch % 4] % self.length
        return late + permuted(at, self.per_epoch, self.seed, epoch) * self.length

    def batch(self, first_sample, rows):
        """ids and targets (rows, length), int64."""
        starts = [self.start_of(first_sample + row) for row in range(rows)]
        both = numpy.stack([self.tokens[start : start + self.length + 1] for start in starts]).astype("int64")
        return both[:, :-1].copy(), both[:, 1:].copy()
