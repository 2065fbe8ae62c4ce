"""The page that begins with two CSV files says what the audit of these files says."""

import re
from pathlib import Path

import shiftbench as sb

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"


def test_the_sentence_of_the_page_is_the_audits(tmp_path, monkeypatch):
    """The files of the page hold two bad contexts; both are found, nothing else is, and one is quoted."""
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    exec(re.findall(r"```python\n(.*?)```", text, flags=re.S)[0], {})  # noqa: S102
    audit = sb.audit("old.csv", "frames.csv")
    assert [{one.column for one in finding.members} for finding in audit.findings] == [{"city", "light"}, {"speed"}]
    (quoted,) = re.findall(r"(?m)^> (.*)$", text)
    assert audit.sentences()[0] == quoted
