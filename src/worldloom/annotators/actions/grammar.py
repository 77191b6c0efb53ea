"""WorldPlay2's action strings, such as "w+right-8,s-4": tokens joined by +, a duration in latents, steps by commas.

At most one token of each kind: movement w s a d wa wd sa sd; turn left right; look up down; space; or none alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from worldloom.schemas import DataError

MOVES = {"w": (1, 0), "s": (-1, 0), "a": (0, -1), "d": (0, 1),
         "wa": (1, -1), "wd": (1, 1), "sa": (-1, -1), "sd": (-1, 1)}
TURNS = {"left": -1, "right": 1}
LOOKS = {"up": 1, "down": -1}
_KIND = {**dict.fromkeys(MOVES, "movement"), **dict.fromkeys(TURNS, "turn"), **dict.fromkeys(LOOKS, "look"),
         "space": "space", "none": "none"}


_COLUMNS = {"forward": (2, 1), "back": (2, -1), "right": (3, 1), "left": (3, -1), "yaw_right": (1, 1),
            "yaw_left": (1, -1), "pitch_up": (0, 1), "pitch_down": (0, -1), "jump": (5, 1)}   # column of a row, sign


@dataclass(frozen=True)
class Step:
    """One held action for a number of latents: movement (forward, right), turn (right +), look (up +), jump."""
    latents: int
    longitudinal: int = 0
    lateral: int = 0
    turn: int = 0
    look: int = 0
    jump: int = 0

    def tokens(self) -> list[str]:
        found = [name for name, move in MOVES.items() if move == (self.longitudinal, self.lateral)]
        found += [name for name, value in TURNS.items() if value == self.turn]
        found += [name for name, value in LOOKS.items() if value == self.look]
        return (found + ["space"] * self.jump) or ["none"]


def parse(text: str) -> list[Step]:
    """Steps of an action string.

    Raises:
        DataError: every fault of the string at once: unknown tokens, two of one kind, bad durations.
    """
    steps, faults = [], []
    for number, part in enumerate(text.split(","), 1):
        names, _, duration = part.strip().rpartition("-")
        tokens = [token.strip() for token in names.split("+")]
        unknown = [token for token in tokens if token not in _KIND]
        kinds = [_KIND[token] for token in tokens if token in _KIND]
        if unknown:
            faults.append(f"step {number}: unknown {', '.join(map(repr, unknown))}")
        if len(set(kinds)) < len(kinds) or ("none" in kinds and len(kinds) > 1):
            faults.append(f"step {number}: {names!r} has two tokens of one kind, or none with others")
        if not (duration.isascii() and duration.isdigit() and int(duration) > 0):
            faults.append(f"step {number}: duration {duration!r} is not a whole number above 0")
        if not faults:
            steps.append(_step(tokens, int(duration)))
    if faults:
        raise DataError(f"action string {text!r}: {'; '.join(faults)}. Known: {' '.join(_KIND)}")
    return steps


def _step(tokens: list[str], latents: int) -> Step:
    fields: dict[str, int] = {"jump": int("space" in tokens)}
    for token in tokens:
        if token in MOVES:
            fields["longitudinal"], fields["lateral"] = MOVES[token]
        elif token in TURNS:
            fields["turn"] = TURNS[token]
        elif token in LOOKS:
            fields["look"] = LOOKS[token]
    return Step(latents, **fields)


def render(steps: list[Step]) -> str:
    """The action string of steps; `parse` gives the same steps back."""
    return ",".join(f"{'+'.join(step.tokens())}-{step.latents}" for step in steps)


def inverse(steps: list[Step]) -> list[Step]:
    """The way back: the same durations in reverse order, turns, looks and movement negated; a jump is left out."""
    return [Step(s.latents, -s.longitudinal, -s.lateral, -s.turn, -s.look) for s in reversed(steps)]


def to_rows(
    steps: list[Step], *, perspective: int, yaw_deg: float = 3.0, pitch_deg: float = 3.0,
) -> np.ndarray:
    """float32 (L, 6) rows, L the sum of durations: pitch, yaw, longitudinal, lateral, perspective, jump."""
    rows = [[s.look * pitch_deg, s.turn * yaw_deg, s.longitudinal, s.lateral, perspective, s.jump]
            for s in steps for _ in range(s.latents)]
    return np.array(rows, np.float32).reshape(-1, 6)


def from_rows(rows_L6: np.ndarray, *, yaw_deg: float = 3.0, pitch_deg: float = 3.0) -> list[Step]:
    """Steps nearest to rows: a turn or look counts from half its size on; equal neighbours become one step."""
    steps: list[Step] = []
    for pitch, yaw, longitudinal, lateral, _, jump in np.asarray(rows_L6, float):
        turn = int(np.sign(yaw)) * (abs(yaw) >= yaw_deg / 2)
        look = int(np.sign(pitch)) * (abs(pitch) >= pitch_deg / 2)
        now = Step(1, int(longitudinal), int(lateral), int(turn), int(look), int(jump))
        if steps and steps[-1] == Step(steps[-1].latents, *_fields(now)):
            now = Step(steps.pop().latents + 1, *_fields(now))
        steps.append(now)
    return steps


def _fields(step: Step) -> tuple[int, int, int, int, int]:
    return step.longitudinal, step.lateral, step.turn, step.look, step.jump


def script_rows(
    segments: list[dict], num_frames: int, *, perspective: int, yaw_deg: float = 3.0, pitch_deg: float = 3.0,
) -> tuple[np.ndarray, list[str]]:
    """Rows float32 (T, 6) of a script and notes on it; a segment is {"frames": [first, last], "do": [names]}.

    Frames that no segment covers have no action. Frames past the end are cut, with a note.

    Raises:
        DataError: every fault at once: unknown names, bad frames, and two segments on one axis in the same frames.
    """
    names = [name for segment in segments for name in segment.get("do", ()) if name not in (*_COLUMNS, "none")]
    faults = [f"unknown {', '.join(map(repr, dict.fromkeys(names)))}"] if names else []
    out, owner, notes = np.zeros((num_frames, 6), np.float32), np.full((num_frames, 6), -1), []
    out[:, 4] = perspective
    size = {0: pitch_deg, 1: yaw_deg}
    for number, segment in enumerate(segments):
        first, last = segment["frames"]
        if not 0 <= first <= last:
            faults.append(f"segment {number}: frames {first} to {last} are no range")
            continue
        if last >= num_frames:
            notes.append(f"segment {number}: frames {max(first, num_frames)} to {last} lie past the end and are cut")
        for column, sign in (_COLUMNS[name] for name in segment.get("do", ()) if name in _COLUMNS):
            taken = owner[first:last + 1, column]
            if (taken >= 0).any():
                faults.append(f"segment {number} overlaps segment {taken.max()} on the same axis in frames "
                              f"{first + int(np.argmax(taken >= 0))} to {first + int(np.flatnonzero(taken >= 0)[-1])}")
            owner[first:last + 1, column], out[first:last + 1, column] = number, sign * size.get(column, 1)
    if faults:
        raise DataError(f"script: {'; '.join(faults)}. Known: {' '.join(_COLUMNS)} none")
    return out, notes
