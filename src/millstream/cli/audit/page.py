"""The audit as one page of HTML that needs nothing else: a heat map of topics by buckets, sums per tier, and what is wrong.

The map is drawn by a few lines of script on a canvas, from one letter per bucket, so that a thousand topics with a thousand buckets are a
page of a megabyte that a browser shows at once.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from millstream.audit.archive import SEVERITY
from millstream.audit.reports.report import bucket_text
from millstream.audit.summary import TopicSummary
from millstream.cli.audit.output import sentence, tier_text

MOST_PROBLEMS: Final = 500
COLOURS: Final = ("#2e9e5b", "#9ecae9", "#8e7cc3", "#f2b134", "#e07b39", "#d62f2f")
"""One for each of `SEVERITY`."""
_LETTERS: Final = bytes(ord("a") + min(code, 25) for code in range(256))

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Audit</title><meta name="viewport" content="width=device-width">
<style>
body{{font:14px system-ui,sans-serif;margin:2em;color:#222;background:#fff}}
h1{{font-size:1.4em}}h2{{font-size:1.1em;margin-top:2em}}
table{{border-collapse:collapse}}td,th{{padding:.2em .8em;text-align:left;border-bottom:1px solid #ddd}}
td.n{{text-align:right;font-variant-numeric:tabular-nums}}
.key span{{display:inline-block;width:1em;height:1em;margin:0 .3em 0 1em;vertical-align:-.15em}}
#map{{overflow:auto;max-height:80vh;border:1px solid #ddd}}#at{{height:1.5em;color:#555}}
@media(prefers-color-scheme:dark){{body{{background:#181a1b;color:#ddd}}td,th,#map{{border-color:#444}}#at{{color:#aaa}}}}
</style></head><body>
<h1>Audit: {topics} topics, {buckets} buckets, {made}</h1>
<p>{verdict}</p>
<p class="key">{key}</p><p id="at"></p><div id="map"><canvas></canvas></div>
<h2>Tiers</h2><table><tr><th>topic<th>tier<th>messages<th>missing<th>surplus<th>repeated<th>complete</tr>{tiers}</table>
<h2>What is wrong</h2>{problems}
<script>
const data={data},names={names},colours={colours},canvas=document.querySelector("canvas"),pen=canvas.getContext("2d");
const label=Math.min(260,10+7*Math.max(0,...data.topics.map(t=>t.length)));
const fit=(low,room,count)=>Math.max(low,Math.min(16,Math.floor(room/Math.max(1,count))));
const wide=fit(2,1200,data.buckets.length),high=fit(8,6000,data.topics.length);
canvas.width=label+wide*data.buckets.length;canvas.height=high*data.topics.length;pen.font=Math.min(12,high)+"px system-ui";
data.topics.forEach((topic,y)=>{{pen.fillStyle="#888";pen.fillText(topic,2,(y+.85)*high,label-6);
for(let x=0;x<data.cells[y].length;x++){{const code=data.cells[y].charCodeAt(x)-97;
if(code>=0&&code<colours.length){{pen.fillStyle=colours[code];pen.fillRect(label+x*wide,y*high,wide>3?wide-1:wide,high-1)}}}}}});
canvas.onmousemove=event=>{{const x=Math.floor((event.offsetX-label)/wide),y=Math.floor(event.offsetY/high);
const code=data.cells[y]?data.cells[y].charCodeAt(x)-97:-1;
document.getElementById("at").textContent=code>=0?data.topics[y]+"  "+data.buckets[x]+"  "+names[code]:""}};
</script></body></html>
"""


def audit_page(summaries: Sequence[TopicSummary], *, made: str) -> str:
    """The page."""
    columns = [summary.cells() for summary in summaries]
    # Most topics have the same buckets: each such run is looked at once.
    runs = {_run(some) for cells in columns for some, _ in cells}
    starts = sorted(set().union(*runs))
    place = {start: position for position, start in enumerate(starts)}
    positions = {run: _as_range([place[start] for start in run]) for run in runs}
    cells = [_cells(one, positions, len(starts)) for one in columns]
    data = {
        "topics": [summary.topic for summary in summaries],
        "buckets": [_when(start) for start in starts],
        "cells": cells,
    }
    wrong = sum(len(summary.problems) for summary in summaries)
    return _PAGE.format(
        topics=len(summaries),
        buckets=len(starts),
        made=escape(made),
        verdict="Everything that is over is complete." if not wrong else f"{wrong} buckets at a tier are not complete.",
        key="".join(f'<span style="background:{colour}"></span>{name}' for name, colour in zip(SEVERITY, COLOURS, strict=True)),
        tiers="".join(_tier_lines(summary) for summary in summaries),
        problems=_problems(summaries),
        data=_script(data),
        names=_script([name.value for name in SEVERITY]),
        colours=_script(COLOURS),
    )


def _cells(columns: Sequence[tuple[Sequence[int], bytes]], positions: Mapping[Sequence[int], Sequence[int]], count: int) -> str:
    """A letter for each bucket, a dot where there is none."""
    cells = bytearray(b"." * count)
    for starts, codes in columns:
        letters = codes.translate(_LETTERS)
        places = positions[_run(starts)]
        if isinstance(places, range):
            cells[places.start : places.stop] = letters
        else:
            for position, letter in zip(places, letters, strict=True):
                cells[position] = letter
    return cells.decode()


def _run(starts: Sequence[int]) -> Sequence[int]:
    """Starts of buckets as something that can be looked up."""
    return starts if isinstance(starts, range) else tuple(starts)


def _as_range(positions: list[int]) -> Sequence[int]:
    """The same positions, as a range if they follow each other."""
    together = range(positions[0], positions[0] + len(positions)) if positions else range(0)
    return together if positions == list(together) else positions


def _tier_lines(summary: TopicSummary) -> str:
    lines = []
    for tier, total in summary.tiers.items():
        numbers = "".join(f'<td class="n">{number:,}' for number in (total.count, total.missing, total.surplus, total.repeated))
        name = escape(tier_text(tier, summary.tiers))
        lines.append(f'<tr><td>{escape(summary.topic)}<td>{name}{numbers}<td class="n">{total.completeness:.3%}</tr>')
    return "".join(lines)


def _problems(summaries: Sequence[TopicSummary]) -> str:
    rows = [row for summary in summaries for row in summary.problems]
    if not rows:
        return "<p>Nothing.</p>"
    lines = [
        "<tr>" + "".join(f"<td>{escape(text)}" for text in (row.topic, _when(row.bucket), row.tier.name, sentence(row))) + "</tr>"
        for row in sorted(rows, key=lambda row: -(row.missing + row.surplus))[:MOST_PROBLEMS]
    ]
    return f"<table><tr><th>topic<th>bucket<th>tier<th>what</tr>{''.join(lines)}</table>"


def _when(start: int) -> str:
    return bucket_text(start) or "without a time"


def _script(value: object) -> str:
    """JSON that cannot end the script it stands in."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
