"""Annotations: strict, and equal to what is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent


def test_an_example_and_the_package_pass_mypy(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    call = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path)]
    for what in (["-p", "boxwork"], [str(TESTS / "example.py")]):
        done = subprocess.run([*call, *what], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_equal_the_module(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    call = [sys.executable, "-m", "mypy.stubtest", "boxwork", "--ignore-missing-stub"]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
