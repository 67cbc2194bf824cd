"""Pictures and stores for the tests, and the command to compare with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from struct import pack

import boxwork as bw
import numpy as np
import numpy.typing as npt
import pytest

ROOT = Path(__file__).resolve().parents[2]


def picture(seed: int, side: int = 48) -> npt.NDArray[np.uint8]:
    """A picture of a few coloured blocks: the class decides the colours, the seed their places."""
    random = np.random.default_rng(seed)
    found = np.zeros((side, side, 3), dtype=np.uint8)
    found[:] = (40 * (seed % 5), 200 - 40 * (seed % 5), 90)
    for _ in range(6):
        top, left = random.integers(0, side - 12, 2)
        colour = np.array([(60 * (seed % 5) + 50) % 256, random.integers(0, 60), 255 - 40 * (seed % 5)])
        found[top : top + 12, left : left + 12] = colour.astype(np.uint8)
    return found


def write_png(path: Path, pixels: npt.NDArray[np.uint8]) -> None:
    """Writes a picture as PNG, whose decoded pixels are the same."""
    height, width, _ = pixels.shape

    def chunk(kind: bytes, content: bytes) -> bytes:
        return pack(">I", len(content)) + kind + content + pack(">I", zlib.crc32(kind + content))

    lines = b"".join(b"\0" + pixels[row].tobytes() for row in range(height))
    head = pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(lines)), chunk(b"IEND", b"")]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


@pytest.fixture(scope="session", autouse=True)
def engine() -> None:
    """An engine of two slots, without GPUs: the answers are the same with them."""
    bw.configure(workers=2, devices=False)


@pytest.fixture(scope="session")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 40 pictures in 5 classes."""
    folder = tmp_path_factory.mktemp("photographs")
    for seed in range(40):
        write_png(folder / f"class{seed % 5}" / f"{seed:03}.png", picture(seed))
    return folder


@pytest.fixture(scope="session")
def store_path(photographs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of these pictures."""
    path = tmp_path_factory.mktemp("stores") / "photographs.signatures.arrow"
    assert len(bw.extract(photographs, path)) == 40
    return path


@pytest.fixture
def store(store_path: Path) -> bw.Store:
    """The store, open."""
    return bw.Store.open(store_path)


@pytest.fixture
def own(store_path: Path, tmp_path: Path) -> bw.Store:
    """A copy of the store, to change."""
    path = tmp_path / "own.signatures.arrow"
    shutil.copy(store_path, path)
    return bw.Store.open(path)


@pytest.fixture(scope="session")
def command() -> Callable[..., str]:
    """Runs the command, of the environment variable BOXWORK or built in the folder above, and returns its output."""
    candidates = [os.environ.get("BOXWORK"), ROOT / "target/release/boxwork", ROOT / "target/debug/boxwork"]
    found = next((str(path) for path in candidates if path and Path(path).is_file()), None)
    if found is None:
        pytest.skip("the command is not built: `cargo build` in the root, or name it in BOXWORK")

    def run(*arguments: str | Path) -> str:
        done = subprocess.run([found, *map(str, arguments)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def run_python(text: str, *arguments: str | Path, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """Runs a script in an interpreter of its own."""
    call = [sys.executable, "-c", text, *map(str, arguments)]
    return subprocess.run(call, capture_output=True, text=True, check=False, timeout=timeout_s)
