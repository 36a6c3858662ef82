#!/usr/bin/env python3
"""Checks the rules of the house that the compiler cannot.

  - a room includes only the rooms it may know (MAY);
  - a third-party header is included only where it is at home (HOMES);
  - a page has at most 600 lines, unless ARCHITECTURE.md names it as an exception.

Usage: python3 tools/check_rooms.py [--may]      --may prints the table and leaves
"""

import pathlib
import re
import sys

MAY = {  # room: rooms it may include (itself is always allowed)
    "base": "",
    "io": "base",
    "fetch": "base io",
    "text": "base io",
    "device": "base",
    "kernels": "base device",
    "tensor": "base device",
    "autograd": "base tensor",
    "ops": "base device tensor kernels autograd",
    "checks": "base device tensor kernels autograd ops",
    "nn": "base tensor autograd ops",
    "models": "base tensor autograd ops nn",
    "generate": "base text tensor autograd models",
    "exchange": "base io text tensor autograd ops nn models",
    "optim": "base device tensor kernels nn",
    "data": "base io text tensor",
    "train": "base device io text tensor autograd ops nn models generate data optim",
}

# (what, header pattern, path pattern of the files that may include it)
HOMES = [
    ("oneDNN", r"(oneapi/)?dnnl", r"norma/kernels/.*\.cpp$"),
    ("Eigen", r"(eigen3/)?(Eigen|unsupported)/", r"norma/kernels/.*\.cpp$"),
    ("CUDA", r"(cuda|cublas|cudnn|curand|cooperative_groups|cub/|thrust/|nv_?bfloat|nvtx)", r"(norma/(device|kernels)/cuda|tests/hopper/shim)/"),
    ("fmt", r"fmt/", r"norma/base/.*\.cpp$"),
    ("nlohmann-json", r"nlohmann/", r"norma/base/.*\.cpp$"),
    ("xxHash", r"xxh", r"norma/io/digest\.cpp$"),
    ("zlib", r"z(lib|conf)\.h", r"(norma/io/gzip_source\.cpp|tests/io/byte_source_test\.cpp)$"),
    ("liblzma", r"lzma", r"(norma/io/xz_source\.cpp|tests/io/byte_source_test\.cpp)$"),
    ("libzstd", r"z(std|dict)", r"(norma/io/zstd_source\.cpp|tests/io/byte_source_test\.cpp)$"),
    ("toml++", r"toml\+\+/", r"norma/base/toml\.cpp$"),
    ("PCRE2", r"pcre2", r"norma/text/unicode\.cpp$"),
    ("CLI11", r"CLI/", r"apps/"),
    ("OpenMP's omp.h", r"omp\.h$", r"norma/(base|kernels)/"),
    ("GoogleTest", r"g(test|mock)/", r"tests/"),
]

SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
PAGE_LIMIT = 600
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')

root = pathlib.Path(__file__).resolve().parent.parent


def pages(*folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path.relative_to(root)


def long_page_exceptions():
    architecture = root / "ARCHITECTURE.md"
    return architecture.read_text(encoding="utf-8") if architecture.exists() else ""


def room_fault(page, header):
    """The broken rule for one include of a room's page, or None."""
    hit = re.match(r"norma/(\w+)/", header)
    if page.parts[0] != "norma" or not hit:
        return None
    room, other = page.parts[1], hit[1]
    if room not in MAY:
        return f"room {room} is not in the table of tools/check_rooms.py"
    if other != room and other not in MAY[room].split():
        return f"{room} may not include {other}"
    return None


def home_fault(page, header):
    """The broken rule for an include of a third-party header, or None."""
    for what, pattern, home in HOMES:
        if re.match(pattern, header) and not re.match(home, page.as_posix()):
            return f"{what} may not be included here ({header})"
    return None


def levels():
    """Level of each room, as a check that the table has no cycle."""
    level = {}
    while len(level) < len(MAY):
        ready = [r for r in MAY if r not in level and all(n in level for n in MAY[r].split())]
        if not ready:
            sys.exit("check_rooms.py: the table MAY has a cycle or names an unknown room")
        depth = {r: max((level[n] + 1 for n in MAY[r].split()), default=0) for r in ready}
        level.update(depth)
    return level


def main():
    level = levels()
    if sys.argv[1:] == ["--may"]:
        for room in sorted(MAY, key=lambda r: level[r]):
            print(f"{level[room]}  {room:10} {MAY[room] or '-'}")
        return 0
    if sys.argv[1:]:
        print(__doc__.strip())
        return 2

    faults = []
    exceptions = long_page_exceptions()
    count = 0
    for page in pages("norma", "apps", "tests", "bench", "fuzz"):
        count += 1
        lines = (root / page).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            hit = INCLUDE.match(line)
            if not hit:
                continue
            for fault in (room_fault(page, hit[2]), home_fault(page, hit[2])):
                if fault:
                    faults.append(f"{page}:{number}: {fault}")
        if len(lines) > PAGE_LIMIT and page.as_posix() not in exceptions:
            faults.append(f"{page}:1: {len(lines)} lines; split it at {PAGE_LIMIT}, or name it in ARCHITECTURE.md and say why")
    print("\n".join(faults) or f"rooms ok ({count} pages)")
    return 1 if faults else 0


sys.exit(main())
