"""Every example in the documents runs as written."""

import doctest
import re
from pathlib import Path

import pytest

from lucid.backends.cpu.generated import support

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def examples(text: str) -> str:
    """The fenced blocks that hold a Python session; all other lines are blank, so that line numbers stay."""
    kept, inside, session = [], False, False
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if line.startswith("```"):
            inside = not inside
            session = inside and i + 1 < len(lines) and lines[i + 1].startswith(">>>")
            kept.append("")
        else:
            kept.append(line if session else "")
    return "\n".join(kept) + "\n"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_examples_run(path: Path) -> None:
    """The blocks of one document share their names, as they do for a reader who types along."""
    if path.name in ("kernels.md", "compile.md") and not support.in_use:
        pytest.skip("shows generated code")
    name = path.relative_to(ROOT).as_posix()
    test = doctest.DocTestParser().get_doctest(examples(path.read_text("utf-8")), {}, name, str(path), 0)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append)
    assert result.failed == 0, "".join(report)


@pytest.mark.parametrize("name", ["README.md", "docs/autograd.md", "docs/transforms.md"])
def test_document_has_examples(name: str) -> None:
    assert examples((ROOT / name).read_text("utf-8")).count(">>> ") > 20


def test_a_wrong_example_is_noticed() -> None:
    text = "Prose\n\n```python\n>>> 1 + 1\n3\n```\n"
    test = doctest.DocTestParser().get_doctest(examples(text), {}, "wrong", None, 0)
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=lambda _: None)
    assert result.failed == 1


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}, which does not exist"
