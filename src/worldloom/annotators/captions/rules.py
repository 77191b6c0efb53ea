"""Captions written by rule from what was measured and recorded: plain, short, and never a guess.

Without truth the scene speaks of light, colour, texture and change only; things are named where recorded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from worldloom.annotators.captions.events import tile_events
from worldloom.annotators.captions.interface import Evidence, Truth

IN_VIEW_SHARE = 0.15        # of the frames; what shows for less is passing by
MAX_THINGS = 5
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
SELF_NAMES = {"doomplayer", "self", "player"}
PASSING = re.compile(r"(puff|blood|bloodpool|tracer|smoke|spark|fog|ball|plasmaball|rocket|shot)$")
DOOM_NAMES = {
    "zombieman": "zombie", "shotgunguy": "zombie with a shotgun", "chaingunguy": "zombie with a chaingun",
    "marinechainsaw": "marine", "doomimp": "imp", "demon": "pink demon", "hellknight": "hell knight",
    "baronofhell": "baron of hell", "lostsoul": "flying skull", "explosivebarrel": "barrel", "medikit": "medical kit",
    "stimpack": "small medical kit", "healthbonus": "health potion", "armorbonus": "armour helmet",
    "greenarmor": "green armour vest", "bluearmor": "blue armour vest", "clipbox": "box of bullets",
    "clip": "magazine of bullets", "shell": "pack of shells", "shellbox": "box of shells", "techlamp": "tall lamp",
    "techlamp2": "short lamp", "column": "lamp post", "techpillar": "metal pillar", "stalagtite": "stalactite",
    "torchtree": "bare tree", "bigtree": "tree", "soulsphere": "blue glowing sphere", "rocketammo": "rocket",
    "redcard": "red key card", "bluecard": "blue key card", "yellowcard": "yellow key card",
    "brainstem": "heap of remains", "headsonastick": "pole with heads", "berserk": "black medical kit",
}


class RulesCaptioner:
    """The captioner that needs no model."""
    name = "rules/1"

    def caption(self, evidence: Evidence) -> dict[str, Any]:
        """A caption that `validate` accepts; see `Captioner`."""
        truth = evidence.truth
        return {
            "scene": describe_scene(evidence),
            "character": describe_character(evidence) if evidence.perspective == "tps" else None,
            "ui": describe_ui(truth) if truth else None,
            "events": tile_events(evidence),
            "basis": "engine" if truth else "pixels",
        }


def describe_scene(evidence: Evidence) -> str:
    """One or two sentences: light, place, colours, things in view; then texture and change."""
    frames_THWC = evidence.frames_THWC
    light, place = light_word(float(frames_THWC.mean())), place_word(frames_THWC)
    if light == "black":
        return "A black picture."
    lead = " ".join(word for word in (light, place) if word)
    article = "An" if lead[0] in "aeiou" else "A"
    things = things_in_view(evidence.truth) if evidence.truth else []
    shown = f" with {join_words(things)} in view" if things else ""
    surface = f"{texture_word(frames_THWC)}{change_words(evidence)}"
    return f"{article} {lead} in {join_words(dominant_hues(frames_THWC))}{shown}. {surface}"


def light_word(mean_grey: float) -> str:
    for bound, word in ((8, "black"), (45, "dark"), (85, "dim"), (150, "evenly lit")):
        if mean_grey < bound:
            return word
    return "bright"


def place_word(frames_THWC: np.ndarray) -> str:
    """An open scene has a bright smooth upper part, an interior is dark with none; else just scene."""
    gray_THW = frames_THWC.mean(axis=3)
    third = gray_THW.shape[1] // 3
    top_THW, rest_THW = gray_THW[:, :third], gray_THW[:, third:]
    rough = float(np.abs(np.diff(top_THW, axis=2)).mean())
    if top_THW.mean() > 110 and top_THW.mean() > rest_THW.mean() + 25 and rough < 5:
        return "open scene"
    return "interior" if rest_THW.mean() < 85 and top_THW.mean() < rest_THW.mean() + 15 else "scene"


def dominant_hues(frames_THWC: np.ndarray) -> list[str]:
    """Names of one to three colours, most common first, each on at least an eighth of the pixels."""
    rgb_NC = np.ascontiguousarray(frames_THWC[:, ::2, ::2]).reshape(1, -1, 3)
    hue, saturation, value = cv2.cvtColor(rgb_NC, cv2.COLOR_RGB2HSV)[0].astype(int).T
    names = np.select(
        [value < 32, (saturation < 45) & (value > 200), saturation < 45,
         ((hue < 22) | (hue >= 172)) & (value < 170) & (saturation < 190) & (hue >= 3), (hue < 8) | (hue >= 172),
         hue < 20, hue < 34, hue < 85, hue < 98, hue < 128],
        ["black", "white", "grey", "brown", "red", "orange", "yellow", "green", "turquoise", "blue"], "purple")
    names[(names == "yellow") & (value < 130)] = "brown"
    shares = Counter(names.tolist()).most_common(3)
    return [name for i, (name, count) in enumerate(shares) if i == 0 or count / len(names) >= 0.125]


def texture_word(frames_THWC: np.ndarray) -> str:
    step = np.abs(np.diff(frames_THWC.astype(np.int16).mean(axis=3), axis=2)).mean()
    for bound, words in ((1.5, "Surfaces are smooth and plain"), (6, "Surfaces carry some texture")):
        if step < bound:
            return words
    return "Surfaces are finely textured"


def change_words(evidence: Evidence) -> str:
    """How much of the picture changes, from the score `static_share`; nothing where it was not measured."""
    share = evidence.scores.get("static_share")
    if share is None:
        return "."
    if share > 0.9:
        return ", and nothing changes."
    return ", with long still stretches." if share > 0.5 else "."


def things_in_view(truth: Truth) -> list[str]:
    """Recorded things that stay in view, as "two zombies", those seen most first."""
    per_frame = [Counter(name for name in map(plain_name, names) if name) for names in truth.objects]
    if not per_frame:
        return []
    seen = Counter(name for counts in per_frame for name in counts)
    out = []
    for name, frames in sorted(seen.items(), key=lambda item: (-item[1], item[0]))[:MAX_THINGS]:
        if frames / len(per_frame) >= IN_VIEW_SHARE:
            out.append(counted(name, round(float(np.median([c[name] for c in per_frame if c[name]])))))
    return out


def plain_name(name: str) -> str | None:
    """A recorded class name in plain words; None for the player itself and for shots, smoke and the like."""
    key = re.sub(r"[\W_]+", "", name).lower()
    if not key or key in SELF_NAMES or PASSING.search(key):
        return None
    if key in DOOM_NAMES:
        return DOOM_NAMES[key]
    if re.match(r"(dead|gibbed)", key):
        return "body"
    words = re.sub(r"([a-z])([A-Z])", r"\1 \2", re.sub(r"[\W_]+", " ", name)).lower()
    return re.sub(r"\d+", "", words).strip() or None


def counted(name: str, count: int) -> str:
    """ "two zombies", "a barrel", "several lamps"; the word before "with" or "of" takes the plural."""
    if count <= 1:
        return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
    head, joint, tail = re.fullmatch(r"(.*?)((?: with | of ).*)?()", name).groups()
    plural = "bodies" if head == "body" else head + ("es" if re.search(r"(s|x|ch|sh)$", head) else "s")
    number = NUMBERS[count] if count < len(NUMBERS) else "several"
    return f"{number} {plural}{joint or ''}{tail}"


def describe_character(evidence: Evidence) -> str:
    """The controlled figure by the colours at the middle of the picture, where such games draw it."""
    _, height, width, _ = evidence.frames_THWC.shape
    middle = evidence.frames_THWC[:, height // 3: height * 5 // 6, width * 2 // 5: width * 3 // 5]
    return f"A figure near the middle of the picture in {join_words(dominant_hues(middle)[:2])}."


def describe_ui(truth: Truth) -> str | None:
    parts = (["a status bar along the lower edge"] if truth.hud else []) + (
        ["a held weapon at the lower middle"] if truth.weapon else [])
    return f"{join_words(parts).capitalize()}." if parts else None


def join_words(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1] if words else ""
