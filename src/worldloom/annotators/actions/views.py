"""Action labels of one clip as per-latent rows, an action string, or HY-WorldPlay classes: what the commands print."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from worldloom.annotators.actions import grammar, hy_worldplay
from worldloom.annotators.actions.label import travel
from worldloom.annotators.actions.latents import Alignment, latent_map, per_latent
from worldloom.schemas import Action, Camera, DataError

COLUMNS = ("pitch_deg", "yaw_deg", "longitudinal", "lateral", "perspective", "jump")


def latents_of(
    action: Action, camera: Camera | None, stride: int, alignment: Alignment = "causal_first", start: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (L, 6) and where they are certain; movement by the displacement of given poses where the camera has them."""
    given = camera is not None and camera.pose_source != "estimated"
    steps = travel(np.asarray(camera.world_from_cam_T44, float).reshape(-1, 4, 4)) if given and camera else None
    return per_latent(action, stride, alignment, start=start, travel_T3=steps)


def latent_rows(
    action: Action, camera: Camera | None, stride: int, alignment: Alignment = "causal_first", start: int = 0,
) -> Iterator[dict[str, Any]]:
    """One dict a latent: clip, frames, anchor and the six columns; null where the label is uncertain."""
    rows, certain = latents_of(action, camera, stride, alignment, start)
    held = latent_map(action.num_frames, stride, alignment, start=start)
    for i, (row, sure) in enumerate(zip(rows.tolist(), certain.tolist(), strict=True)):
        values = [round(value, 4) if column < 2 else int(value) for column, value in enumerate(row)]
        yield {"clip_id": action.clip_id, "latent": i, "first_frame": int(held[i, 0]), "last_frame": int(held[i, 1]),
               "anchor_frame": int(held[i, 2]),
               **{name: value if ok else None for name, value, ok in zip(COLUMNS, values, sure, strict=True)}}


def action_string(
    action: Action, camera: Camera | None, stride: int, *, yaw_deg: float = 3.0, pitch_deg: float = 3.0,
    uncertain: str = "refuse",
) -> str:
    """The clip in WorldPlay2's grammar, from the second latent on (the first is at rest); sizes become key presses.

    A turn or look counts from half the size given on. A jump that is not certain is left out.

    Args:
        uncertain: "refuse", or "none" to take uncertain turns and movement as no action.
    Raises:
        DataError: an uncertain latent, which no key press stands for, where such are refused.
    """
    rows = _certain_rows(action, camera, stride, uncertain)
    return grammar.render(grammar.from_rows(rows[1:], yaw_deg=yaw_deg, pitch_deg=pitch_deg))


def hy_classes(
    action: Action, camera: Camera | None, stride: int, *, order: str = "hy_worldplay", uncertain: str = "refuse",
    least_turn_deg: float = hy_worldplay.LEAST_TURN_DEG,
) -> np.ndarray:
    """HY-WorldPlay class of each latent, from our labels; `uncertain` as in `action_string`.

    Raises:
        DataError: an uncertain latent, which has no class, where such are refused.
    """
    rows = _certain_rows(action, camera, stride, uncertain)
    return hy_worldplay.from_rows(rows, order, least_turn_deg=least_turn_deg)


def _certain_rows(action: Action, camera: Camera | None, stride: int, uncertain: str) -> np.ndarray:
    if uncertain not in ("refuse", "none"):
        raise DataError(f"uncertain {uncertain!r} is not known; wanted refuse or none")
    rows, certain = latents_of(action, camera, stride)
    open_ones = np.flatnonzero(~certain[:, :4].all(1))
    if len(open_ones) and uncertain == "refuse":
        raise DataError(f"clip {action.clip_id}: {len(open_ones)} of {len(certain)} latents are uncertain, first "
                        f"{int(open_ones[0])}, and there is no word for that; see worldloom labels latents, or take "
                        "them as no action with --uncertain none")
    return rows
