"""From items to a message: one block a run, its most severe item first, with the cause where a diagnosis names one."""

from collections.abc import Callable, Sequence
from typing import Any

from stepward.diagnose.lines import clean
from stepward.model.notices import SEVERITIES, NoticeItem

MOST_RUNS = 20
"""Runs that a message tells of; of the others the number."""
MOST_LINES = 6
MAX_TEXT = 2500
"""Characters of a block; Slack takes 3,000."""
SCHEMA = "stepward.notice/1"

Describe = Callable[[str, str], tuple[str, list[str]]]
"""Run and event -> the run's name, and the diagnosis in lines, if there is one."""


def run_lines(items: Sequence[NoticeItem], describe: Describe) -> list[tuple[str, list[str]]]:
    """A heading and lines for each run, the most severe first."""
    runs: dict[str, list[NoticeItem]] = {}
    for item in items:
        runs.setdefault(item.run, []).append(item)
    ordered = sorted(runs.values(), key=lambda mine: max(_weight(item) for item in mine), reverse=True)
    found = []
    for mine in ordered[:MOST_RUNS]:
        first = max(mine, key=_weight)
        name, diagnosis = describe(first.run, first.event)
        heading = f"{clean(name)} ({clean(first.project)}): {_phrase(first)}"
        rest = [_phrase(item) for item in sorted(mine, key=_weight, reverse=True) if item is not first]
        more = [f"and {len(rest) - MOST_LINES} more"] if len(rest) > MOST_LINES else []
        found.append((heading, [*map(clean, diagnosis), *rest[:MOST_LINES], *more]))
    if len(ordered) > MOST_RUNS:
        found.append((f"and {len(ordered) - MOST_RUNS} more runs", []))
    return found


def webhook_body(id: str, lines: Sequence[tuple[str, list[str]]], links: Sequence[str]) -> dict[str, Any]:
    """What Slack's incoming webhooks take, and whoever takes the same: a text and blocks."""
    blocks: list[dict[str, Any]] = []
    for (heading, rest), link in zip(lines, [*links, *[""] * len(lines)], strict=False):
        title = f"*<{link}|{_escaped(heading)}>*" if link else f"*{_escaped(heading)}*"
        text = "\n".join([title, *map(_escaped, rest)])
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text[:MAX_TEXT]}})
    if blocks:
        blocks[0]["block_id"] = id
    return {"text": _escaped("; ".join(heading for heading, _ in lines))[:MAX_TEXT], "blocks": blocks}


def command_input(
    id: str, route: str, items: Sequence[NoticeItem], lines: Sequence[tuple[str, list[str]]]
) -> dict[str, Any]:
    """What a command reads: the whole message, for programs."""
    text = "\n".join(line for heading, rest in lines for line in [heading, *(f"  {one}" for one in rest)])
    return {"schema": SCHEMA, "id": id, "route": route, "text": text, "items": list(items)}


def _weight(item: NoticeItem) -> tuple[bool, int, bool]:
    return item.phase != "ended", SEVERITIES.index(item.severity), item.phase == "end"


def _phrase(item: NoticeItem) -> str:
    title = clean(item.title).strip()
    if item.phase == "ended":
        return f"over: {title}"
    return f"{item.type.replace('_', ' ')}: {title}" if title else item.type.replace("_", " ")


def _escaped(text: str) -> str:
    """Slack's own three; no name of a run makes a link or calls people."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
