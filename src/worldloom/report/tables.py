"""Reading the catalog tolerantly: a table that is absent or empty gives no rows."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np


class Tables:
    """The tables of one connection, as far as they exist."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        self.names = {name for (name,) in con.execute("select table_name from information_schema.tables").fetchall()}

    def rows(self, sql: str, needs: str, values: list[Any] | None = None) -> list[dict[str, Any]]:
        """Rows of a query as dicts; none where one of the tables that it needs (words) is absent."""
        if not set(needs.split()) <= self.names:
            return []
        result = self._con.execute(sql, values or [])
        names = [column[0] for column in result.description]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def number(self, sql: str, needs: str) -> float | None:
        """The single number that a query gives; None where it gives none."""
        rows = self.rows(sql, needs)
        value = next(iter(rows[0].values())) if rows else None
        return None if value is None else float(value)

    def shown_clips(self, limit: int) -> list[dict[str, Any]]:
        """Kept clips with actions (all clips where nothing was selected): sources in turn, each video once first."""
        kept = "where clip_id in (select clip_id from selection where kept)"
        if not self.number("select count(*) from selection where kept", "selection"):
            kept = ""
        return self.rows(f"""
            with by_video as (select clip_id, video_id, source_id, media, num_frames, fps, start_s, row_number() over
                    (partition by video_id order by clip_id) turn from clip semi join action using (clip_id) {kept}),
            by_source as (select *, row_number() over (partition by source_id order by turn, clip_id) place
                    from by_video)
            select * exclude (turn, place) from by_source order by place, source_id limit {int(limit)}""",
                         "clip action")

    def actions(self, table: str, clip_ids: list[str]) -> dict[str, dict[str, np.ndarray]]:
        """Tracks of `action` or `action_truth` by clip; unknown angles are NaN."""
        found = self.rows(f'select clip_id, yaw_deg, pitch_deg, longitudinal, "lateral", jump from {table} '
                          "where list_contains(?, clip_id)", table, [clip_ids])
        angles = ("yaw_deg", "pitch_deg")
        return {row["clip_id"]: {k: np.array(v, float if k in angles else int)
                                 for k, v in row.items() if k != "clip_id"} for row in found}

    def paths(self, table: str, clip_ids: list[str]) -> dict[str, np.ndarray]:
        """Camera poses (T, 4, 4) by clip, of `camera` or `camera_truth`."""
        found = self.rows(f"select clip_id, world_from_cam_T44 from {table} where list_contains(?, clip_id)",
                          table, [clip_ids])
        return {row["clip_id"]: np.array(row["world_from_cam_T44"], float).reshape(-1, 4, 4) for row in found}

    def labels(self, clips: list[dict[str, Any]]) -> dict[str, str]:
        """A name to show for each clip: its video's, where known, and where it starts."""
        names = {row["video_id"]: row["name"] for row in self.rows(
            "select video_id, name from video where list_contains(?, video_id)", "video",
            [[clip["video_id"] for clip in clips]])}
        return {clip["clip_id"]: f"{names.get(clip['video_id'], clip['video_id'][:8])} at {clip['start_s']:.1f} s"
                for clip in clips}
