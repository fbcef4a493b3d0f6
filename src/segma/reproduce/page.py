"""The reproduction as one page: Markdown and HTML with the same content."""

import html
import re
from collections.abc import Sequence

from segma.reproduce.tables import Section

STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #555; --line: #ddd; --paper: #fff }
@media (prefers-color-scheme: dark) { :root { --ink: #ddd; --soft: #aaa; --line: #444; --paper: #161616 } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
body { color: var(--ink); background: var(--paper) }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap }
td:last-child { white-space: normal }
code { font-size: .85em; color: var(--soft) }
figure { display: inline-block; vertical-align: top; margin: .5rem 1.5rem .5rem 0; max-width: 100% }
figcaption { font-weight: 600; margin-bottom: .3rem }
img { max-width: 100% }
.note { color: var(--soft); margin: .2rem 0 }
"""


def as_markdown(title: str, intro: Sequence[str], sections: Sequence[Section]) -> str:
    parts = [f"# {title}", *intro]
    for section in sections:
        parts.append(f"## {section.title}")
        if section.table:
            head, *lines = section.table
            rows = [head, ["---"] * len(head), *lines]
            parts.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
        parts += [f"{caption}\n\n![{caption}]({file})" for caption, file in section.pictures]
        parts += section.notes
    return "\n\n".join(parts) + "\n"


def as_html(title: str, intro: Sequence[str], sections: Sequence[Section]) -> str:
    parts = [f"<h1>{_text(title)}</h1>", *(f"<p>{_text(line)}</p>" for line in intro)]
    for section in sections:
        parts.append(f"<h2>{_text(section.title)}</h2>")
        if section.table:
            head, *lines = section.table
            parts.append("<table><tr>" + "".join(f"<th>{_text(cell)}</th>" for cell in head) + "</tr>")
            parts += ["<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in line) + "</tr>" for line in lines]
            parts.append("</table>")
        for caption, file in section.pictures:
            picture = f'<img src="{html.escape(file)}" alt="{_text(caption)}">'
            parts.append(f"<figure><figcaption>{_text(caption)}</figcaption>{picture}</figure>")
        parts += [f'<p class="note">{_text(note)}</p>' for note in section.notes]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{_text(title)}</title>'
    return f"<!doctype html><html><head>{head}<style>{STYLE}</style></head><body>{chr(10).join(parts)}</body></html>\n"


def _text(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))
