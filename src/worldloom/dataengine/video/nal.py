"""Whether a packet of H.264 or HEVC holds a piece of a picture, or only what is said about pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator

_MOST_UNITS = 64


def holds_no_picture(codec: str, extradata: bytes, packet: bytes) -> bool:
    """True where every unit of the packet is a note (parameter sets, SEI, delimiters) and none a slice.

    Such packets come where a file stores half an access unit as a sample; the decoder keeps what they say and
    complains that no picture came. False for other codecs, and where the packet cannot be taken apart.
    """
    if codec not in ("h264", "hevc"):
        return False
    heads = list(_unit_heads(codec, extradata, packet))
    return 0 < len(heads) < _MOST_UNITS and not any(_is_slice(codec, head) for head in heads)


def _is_slice(codec: str, head: int) -> bool:
    return 1 <= head & 0x1F <= 5 if codec == "h264" else head >> 1 & 0x3F < 32


def _unit_heads(codec: str, extradata: bytes, packet: bytes) -> Iterator[int]:
    """First byte of each unit, by length prefixes (avcC, hvcC) or start codes (ITU-T H.264, H.265 annex B)."""
    place = 4 if codec == "h264" else 21
    if len(extradata) <= place or extradata[0] != 1:
        for match in re.finditer(rb"\x00\x00\x01([\x00-\xff])", packet):
            yield match[1][0]
        return
    prefix, at = (extradata[place] & 3) + 1, 0
    for _ in range(_MOST_UNITS):
        size = int.from_bytes(packet[at:at + prefix], "big")
        if at + prefix >= len(packet) or not size:
            return
        yield packet[at + prefix]
        at += prefix + size
