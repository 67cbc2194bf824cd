"""The examples of the guide and of the README run, in their order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import ROOT, picture, write_png

PAGE = ROOT / "docs" / "guide" / "src" / "python.md"


def data(folder: Path) -> None:
    """The pictures that the examples name."""
    for seed in range(36):
        name = f"{seed // 3 + 1:03}.jpg"
        # The content decides the format, not the ending.
        write_png(folder / "Pictures" / ["cats", "dogs", "sunsets"][seed % 3] / name, picture(seed))
    for seed in range(4):
        write_png(folder / "new-photos" / "cats" / f"9{seed}.jpg", picture(200 + seed))
    write_png(folder / "some.jpg", picture(5))


@pytest.mark.parametrize("page", [PAGE, ROOT / "python" / "README.md"], ids=["guide", "readme"])
def test_the_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not page.exists():
        pytest.skip("the tests are not in the source tree")
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    data(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "guide"}
    for number, block in enumerate(blocks, start=1):
        exec(compile(block, f"{page.name}, example {number}", "exec"), names)
