"""Records to a dict, the dict to a page: ``summarise``, then ``render`` or ``write``.

The page is one HTML file below 1 MB that loads nothing, reads without JavaScript, and prints; the
same dict gives Markdown, JSON, and the leaderboard as CSV. Each section stands alone: one that
fails says why, and the page still comes.
"""

from outcode.app.report.page import leaderboard_csv, render, write
from outcode.app.report.sections import SECTIONS, summarise

__all__ = ["SECTIONS", "leaderboard_csv", "render", "summarise", "write"]
