"""The encoding of a text file: found in its bytes, told in one line, and turned into UTF-8."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from dataclasses import replace

from outcode.datasets.sources import BLOCK, Source
from outcode.datasets.table import DataError

BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
#: One byte per character, the likelier first.
SINGLE = ("cp1252", "latin-1", "mac-roman", "cp1250", "cp1251", "koi8-r")
SAMPLE = 2**18

# a character beyond ASCII with its neighbours
_STRANGE = re.compile(r"(?=(.?)([^\x00-\x7f])(.?))", re.S)
_USUAL = frozenset("äöüßéèêàâáãåçñóôúíîøæœÄÖÜÉÀÁÅÇÑÓØÆ")
_RARE = frozenset("ąćęłńśźżěščřžýůďťňőűășțŁŚŹŻČŠŽŘĽľÚÍÔÂÊŒ")
_SELDOM = frozenset("ëïòõùûìÿÈ")
_SIGNS = frozenset("°€£§±µ²³·×–—…«»“”„‘’•™®©¿¡ºª½\u00a0")


def as_utf8(source: Source, given: str | None = None) -> tuple[Source, tuple[str, ...]]:
    """Return the source with its text in UTF-8, and a sentence if it was in another encoding."""
    name = _known(given, source.name) if given else _bom(source.data) or _wide(source.data)
    if name is None and _is_utf8(source.data):
        name = "utf-8"
    said = name is None
    name = name or guessed(source.data)
    _refuse_nul(source, name)
    if name == "utf-8" and _is_utf8(source.data):
        return source, ()
    about = (f"The text is not UTF-8: read as {name}; if letters are wrong, give the encoding.",)
    return replace(source, data=_recoded(source, name)), about if said else ()


def _known(given: str, name: str) -> str:
    try:
        b"a".decode(given, errors="replace")
    except (LookupError, ValueError):
        raise DataError(
            f"{name}: unknown encoding: {given}; known ones are utf-8, latin-1, cp1252, utf-16."
        ) from None
    return "utf-8-sig" if codecs.lookup(given).name == "utf-8" else given


def _bom(data: bytes) -> str | None:
    return next((name for mark, name in BOMS.items() if data.startswith(mark)), None)


def _wide(data: bytes) -> str | None:
    """Return UTF-16 without a mark: every other byte of the first ones is zero."""
    head = data[:1000]
    for first, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros, others = head[first::2], head[1 - first :: 2]
        if len(head) >= 4 and zeros.count(0) > 0.9 * len(zeros) and not others.count(0):
            return name
    return None


def _is_utf8(data: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(data), BLOCK):
            decoder.decode(data[at : at + BLOCK], final=at + BLOCK >= len(data))
    except UnicodeDecodeError:
        return False
    return True


def guessed(data: bytes) -> str:
    """Return the encoding in which the strange characters look most like writing.

    Examples
    --------
    >>> guessed("Zürich, Köln".encode("mac-roman")), guessed("5 €".encode("cp1252"))
    ('mac-roman', 'cp1252')
    """
    sample = b"\n".join(_strange_lines(data))
    worth = {name: _plausible(sample, name) for name in SINGLE}
    # the likelier encoding unless another is clearly better
    best = next(name for name in SINGLE if worth[name] >= max(worth.values()) - 0.02)
    if worth[best] > 0.3:
        return best
    from charset_normalizer import from_bytes

    found = from_bytes(sample).best()
    return best if found is None else found.encoding


def _strange_lines(data: bytes) -> Iterable[bytes]:
    """Yield the lines that are not ASCII, up to a sample's size."""
    left = SAMPLE
    for line in data.splitlines():
        if not line.isascii() and left > 0:
            left -= len(line)
            yield line[:2000]


def _plausible(sample: bytes, name: str) -> float:
    """Return how likely the characters beyond ASCII are where they stand, at most 1 on average."""
    try:
        text = sample.decode(name)
    except UnicodeDecodeError:
        return -2.0
    worth = [_worth(*match.groups()) for match in _STRANGE.finditer(text)]
    return sum(worth) / max(1, len(worth))


def _worth(before: str, char: str, after: str) -> float:
    """Return what a character beyond ASCII is worth between its neighbours."""
    raised = before.islower() and char.isupper()  # aB: no word is written so
    alone = not before.isalpha() and not after.isalpha()
    strange = not before.isascii() and not after.isascii()  # three in a row: another script
    if "\u0400" <= char <= "\u04ff":
        return -1.0 if raised or alone or (before + after).isascii() else 0.9
    if char in _SIGNS:
        between = before.isalpha() and after.isalpha()
        return -1.0 if between and char != "’" else 0.5
    for letters, worth in ((_USUAL, 1.0), (_RARE, 0.8), (_SELDOM, 0.75)):
        if char in letters:
            return -1.0 if raised else -0.5 if strange else 0.2 if alone else worth
    return -1.0


def _refuse_nul(source: Source, name: str) -> None:
    at = source.data.find(0)
    if at >= 0 and not codecs.lookup(name).name.startswith(("utf-16", "utf-32")):
        raise DataError(
            f"{source.name}: byte {at} is NUL: this is not a text file in UTF-8. Save it as CSV in "
            "UTF-8, or give its encoding (try encoding='utf-16')."
        )


def _recoded(source: Source, name: str) -> bytes:
    """Return the text in UTF-8, a block at a time; a byte that does not fit is an error."""
    decoder = codecs.getincrementaldecoder(name)()
    out = bytearray()
    for at in range(0, len(source.data), BLOCK):
        block = source.data[at : at + BLOCK]
        try:
            out += decoder.decode(block, final=at + BLOCK >= len(source.data)).encode()
        except UnicodeError as error:
            start = getattr(error, "start", 0) + at
            line = source.data[:start].count(b"\n") + 1
            raise DataError(
                f"{source.name}, line {line}: byte {start} (0x{source.data[start]:02x}) is not "
                f"{name}. Leave the encoding out, or give the right one."
            ) from None
    return bytes(out)
