"""Safetensors in a few lines, and the manifest of the golden files.

A file is an 8-byte little-endian header length, a JSON header padded with spaces to a multiple of 8, and the tensors
one after the other without gaps, wide types first so that all are aligned. The values of __metadata__ are strings.
"""

import hashlib
import json
import platform
import struct
from pathlib import Path

import numpy as np

GOLDENS = Path(__file__).resolve().parents[2] / "tests" / "goldens"
CODES = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "I32": np.dtype("<i4")}
NAMES = {dtype: code for code, dtype in CODES.items()}


def write(path, tensors, metadata):
    """Writes {name: numpy array}; "norma" in the metadata is JSON text that describes the case."""
    header = {"__metadata__": {"format": "pt", "norma": json.dumps(metadata, sort_keys=True)}}
    payload = b""
    for name, array in sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0])):
        data = np.ascontiguousarray(array)
        start = len(payload)
        payload += data.tobytes()
        header[name] = {"dtype": NAMES[data.dtype], "shape": list(np.shape(array)), "data_offsets": [start, len(payload)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + payload)


def read(path):
    """The tensors and the metadata that write() stored."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    metadata = json.loads(header.pop("__metadata__")["norma"])
    body = raw[8 + length :]
    tensors = {}
    for name, entry in header.items():
        start, stop = entry["data_offsets"]
        tensors[name] = np.frombuffer(body[start:stop], CODES[entry["dtype"]]).reshape(entry["shape"])
    return tensors, metadata


def record(script, folders, versions, seed):
    """Enters what `script` wrote into `folders` of tests/goldens into MANIFEST.json; other scripts' entries stay."""
    path = GOLDENS / "MANIFEST.json"
    manifest = json.loads(path.read_text()) if path.exists() else {}
    files = sorted(file for folder in folders for file in (GOLDENS / folder).glob("*.safetensors"))
    manifest[script] = {
        "versions": {"python": platform.python_version(), "numpy": np.__version__, **versions},
        "seed": seed,
        "sha256": {str(file.relative_to(GOLDENS)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files},
    }
    path.write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
