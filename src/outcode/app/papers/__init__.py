"""The papers' experiments, their figures beside ours: ``outcode reproduce KEY``.

Each module has one function ``reproduce(setting) -> str`` that returns a Markdown page.
"""

from __future__ import annotations

from importlib import import_module

from outcode._checks import lookup
from outcode.app.papers.comparison import Setting

#: Key of the paper -> what is repeated. The module is the key in small letters.
PAPERS = {
    "PPF04": "Passerini, Pontil, Frasconi 2004: four decoders, and the bound against the width",
    "LZ05": "Liu, Zheng 2005, Table I and Fig. 2: which machine to trust",
    "CS02": "Crammer, Singer 2002, section 6.2, Fig. 5: one kernel machine for all classes",
    "LZCX16": "Liu, Zhang, Chen, Xue 2016, Tables 2 and 3: machines learned together",
    "EPY08": "El-Yaniv, Pechyony, Yom-Tov 2008, Table 2: all classes in one binary problem",
}


def reproduce(key: str, setting: Setting | None = None) -> str:
    """Repeat a paper's experiments and return a Markdown page that compares the results.

    Parameters
    ----------
    key : str
        Key of the paper, of :data:`PAPERS`.
    setting : Setting, default=None
        How to repeat the experiments.

    Returns
    -------
    str
        The Markdown page.

    Examples
    --------
    >>> sorted(PAPERS)
    ['CS02', 'EPY08', 'LZ05', 'LZCX16', 'PPF04']
    >>> page = reproduce("PPF04", Setting(quick=True))  # doctest: +SKIP
    """
    lookup(PAPERS, key.upper(), "paper")
    module = import_module(f"outcode.app.papers.{key.lower()}")
    page: str = module.reproduce(setting or Setting())
    return page


__all__ = ["PAPERS", "Setting", "reproduce"]
