"""What each section of the report shows, as plain values for the template; None or empty where there is nothing."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from worldloom.report import figures, overlay, training
from worldloom.report.agreement import MOVING_DEG, STATES, TRUSTED_SE_DEG, TURNING_DEG, confusion, yaw_agreement
from worldloom.report.shards_count import count_shards
from worldloom.report.tables import Tables
from worldloom.schemas import DecodeError

STRIPS, FRAMES_A_STRIP, PATHS, LISTED, CAPTIONS = 5, 8, 6, 30, 6
UNIT_FRAMES = "frames"


def summary(tables: Tables, training_dir: Path | None) -> list[tuple[str, str, str]]:
    """Tiles: what it is, the figure, and what the figure is of."""
    clips = tables.number("select count(*) from clip", "clip")
    judged = tables.rows("select selection, avg(kept::int) share, count(*) n from selection group by 1 order by 1",
                         "selection")
    hours = tables.number("select sum(duration_s) / 3600 from video", "video")
    clip_hours = tables.number("select sum(num_frames / fps) / 3600 from clip", "clip")
    mix = tables.rows("select unit, sum(realised) n, count(*) parts from mix group by unit order by unit", "mix")
    found = training.read_figures(training_dir) if training_dir else {}
    r, slope = (training.find_figure(found, name) for name in ("r", "slope"))
    return [
        ("videos", _count(tables.number("select count(*) from video", "video")), _time(hours, "of video")),
        ("clips", _count(clips), _time(clip_hours, "of clips")),
        ("kept", f"{judged[0]['share']:.0%}" if judged else "–",
         f"of {judged[0]['n']:,} clips, by {judged[0]['selection']}" if judged else "no selection was made"),
        ("mix", _count(mix[0]["n"]) if mix else "–",
         f"{mix[0]['unit']} realised, {mix[0]['parts']} components" if mix else "no mix was compiled"),
        ("model", f"r {training.number(r)}" if r is not None else "–",
         f"slope {training.number(slope)}, commanded against measured yaw" if r is not None
         else "no evaluation was found"),
    ]


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _time(hours: float | None, of: str) -> str:
    if hours is None:
        return f"nothing {of}"
    return f"{hours:,.1f} h {of}" if hours >= 1 else f"{hours * 60:.1f} min {of}"


def accounts(tables: Tables) -> list[dict[str, Any]]:
    """Row accounts by stage; `closed` is whether rows in = done + dropped + failed."""
    found = tables.rows("select stage, count(*) parts, sum(rows_in)::bigint rows_in, sum(done)::bigint done, "
                        "sum(dropped)::bigint dropped, sum(failed)::bigint failed, sum(rows_out)::bigint rows_out "
                        "from run group by stage order by stage", "run")
    order = ["video", "clip", "camera", "camera_truth", "action", "action_truth", "score", "caption", "selection"]
    found.sort(key=lambda row: order.index(row["stage"]) if row["stage"] in order else len(order))
    return [row | {"closed": row["rows_in"] == row["done"] + row["dropped"] + row["failed"]} for row in found]


def filmstrips(tables: Tables, corpus: Path, clips: list[dict[str, Any]], labels: dict[str, str]) -> list[dict]:
    """Strips of frames with their action drawn on them, as JPEG bytes; `problem` where a file cannot be read."""
    actions = tables.actions("action", [clip["clip_id"] for clip in clips])
    strips = []
    for clip in clips:
        tracks = actions[clip["clip_id"]]
        indices = sorted({round(i) for i in np.linspace(1, clip["num_frames"] - 1, FRAMES_A_STRIP) if i >= 0})
        strip = {"title": labels[clip["clip_id"]], "clip_id": clip["clip_id"], "frames": [], "problem": None}
        try:
            pictures = overlay.pick_frames(corpus / clip["media"], indices)
        except (DecodeError, OSError) as err:
            strip["problem"] = str(err)
            pictures = []
        for index, picture in zip(indices, pictures, strict=False):
            if index < len(tracks["yaw_deg"]):
                drawn = overlay.draw_action(picture, **{k: v[index].item() for k, v in tracks.items()})
                turn, tilt = (overlay.degrees(tracks[name][index]) for name in ("yaw_deg", "pitch_deg"))
                strip["frames"].append((f"frame {index}: yaw {turn}°, pitch {tilt}°", overlay.jpeg(drawn)))
        strips.append(strip)
    return strips


def trajectories(tables: Tables, clips: list[dict[str, Any]], labels: dict[str, str]) -> list[figures.Chart]:
    """A chart for each clip whose camera moves."""
    ids = [clip["clip_id"] for clip in clips]
    est, true = tables.paths("camera", ids), tables.paths("camera_truth", ids)
    charts = []
    for clip_id in ids[:PATHS]:
        above = path_from_above(est[clip_id]) if clip_id in est else None
        if above is not None:
            truth = path_from_above(true[clip_id]) if clip_id in true else None
            charts.append(figures.trajectory(labels[clip_id], above, truth))
    return charts


def path_from_above(world_from_cam_T44: np.ndarray) -> np.ndarray | None:
    """Positions (T, 2), right and ahead of the first camera's heading, over the path's extent; None without motion."""
    if not len(world_from_cam_T44):
        return None
    offset_T2 = world_from_cam_T44[:, [0, 2], 3] - world_from_cam_T44[0, [0, 2], 3]
    right, ahead = world_from_cam_T44[0, 0, 2], world_from_cam_T44[0, 2, 2]
    norm, extent = np.hypot(right, ahead), np.nanmax(np.abs(np.nan_to_num(offset_T2)))
    if not (np.isfinite(norm) and norm > 1e-9 and extent > 1e-9):
        return None
    turn_22 = np.array([[ahead, right], [-right, ahead]]) / norm
    turned_T2 = offset_T2 @ turn_22
    return turned_T2 / np.nanmax(np.linalg.norm(turned_T2, axis=1))


def yaw(tables: Tables) -> dict[str, Any] | None:
    """Estimated against true actions over every clip with both; clips whose poses were given are left out."""
    given = {row["clip_id"] for row in tables.rows(
        "select clip_id from camera where pose_source != 'estimated'", "camera")}
    found = tables.rows("""select e.clip_id, e.yaw_deg est, e.yaw_se_deg se, t.yaw_deg true_, e.longitudinal,
        e."lateral", t.longitudinal true_longitudinal, t."lateral" true_lateral
        from action e join action_truth t using (clip_id)
        where len(e.yaw_deg) = len(t.yaw_deg) order by clip_id""", "action action_truth")
    pairs = [row for row in found if row["clip_id"] not in given and len(row["est"]) > 1]
    if not pairs:
        return None
    est, true, se = (_joined(pairs, name, float) for name in ("est", "true_", "se"))
    longest = max(pairs, key=lambda row: np.nansum(np.abs(np.array(row["true_"], float))))
    label = tables.labels(tables.rows("select clip_id, video_id, start_s from clip where clip_id = ?", "clip",
                                      [longest["clip_id"]])).get(longest["clip_id"], longest["clip_id"])
    agreement, trusted = yaw_agreement(est, true), se <= TRUSTED_SE_DEG
    return agreement | {
        "clips": len(pairs), "given": len(found) - len(pairs), "asked": len(true),
        "moving": int(np.sum(np.abs(true) >= MOVING_DEG)), "turning": int(np.sum(np.abs(true) > TURNING_DEG)),
        "moving_deg": MOVING_DEG, "turning_deg": TURNING_DEG,
        "trusted": yaw_agreement(est[trusted], true[trusted]), "trusted_deg": TRUSTED_SE_DEG,
        "charts": [figures.yaw_scatter(est, true),
                   figures.yaw_lines(np.array(longest["est"], float), np.array(longest["true_"], float), label)],
        "confusions": [_confusion(pairs, "longitudinal", ("forward", "none", "backward", "uncertain")),
                       _confusion(pairs, "lateral", ("right", "none", "left", "uncertain"))],
    }


def _joined(pairs: list[dict[str, Any]], name: str, kind: type) -> np.ndarray:
    """One track of every clip end to end, without index 0, where the action is none by definition."""
    return np.concatenate([np.array(row[name], kind)[1:] for row in pairs])


def _confusion(pairs: list[dict[str, Any]], axis: str, names: tuple[str, ...]) -> dict[str, Any]:
    counts_44 = confusion(_joined(pairs, axis, int), _joined(pairs, f"true_{axis}", int))
    totals = counts_44.sum(axis=1)
    known = counts_44[:3, :3]
    rows = [(name, int(total), [(int(n), n / total if total else 0.0) for n in line])
            for name, total, line in zip(names, totals, counts_44, strict=True) if total]
    decided = int(known.sum())
    return {"axis": axis, "names": names, "rows": rows, "decided": decided, "states": len(STATES),
            "right": np.trace(known) / decided if decided else None}


def selections(tables: Tables) -> list[dict[str, Any]]:
    """Policies with the clips kept, and how many failed each rule; a clip can fail several."""
    judged = tables.rows("select selection name, count(*) n, sum(kept::int)::bigint kept from selection group by 1 "
                         "order by 1", "selection")
    reasons = tables.rows("""select selection name, r.reason reason, count(distinct clip_id) n from
        (select selection, clip_id, unnest(reasons) r from selection) group by all order by n desc, reason""",
                          "selection")
    return [row | {"reasons": [r for r in reasons if r["name"] == row["name"]]} for row in judged]


def left_out(tables: Tables) -> dict[str, list[dict[str, Any]]]:
    """Counts of drops and failures by stage and reason, and the first LISTED of each with their line."""
    by = "select stage, {0} reason, count(*) n from {1} group by all order by n desc, stage, reason"
    some = "select stage, row_key, {0} reason, detail from {1} order by stage, reason, row_key limit " + str(LISTED)
    return {"drop_counts": tables.rows(by.format("reason", "drops"), "drops"),
            "failure_counts": tables.rows(by.format("error", "failures"), "failures"),
            "drops": tables.rows(some.format("reason", "drops"), "drops"),
            "failures": tables.rows(some.format("error", "failures"), "failures")}


def captions(tables: Tables) -> list[dict[str, Any]]:
    """Captions with the most events first, with where each clip is from."""
    found = tables.rows(f"""select k.*, c.video_id, c.start_s clip_start_s from caption k left join clip c
        using (clip_id) order by len(list_filter(k.events, lambda e: e.text is not null)) desc, clip_id
        limit {CAPTIONS}""", "caption clip")
    labels = tables.labels([{"clip_id": row["clip_id"], "video_id": row["video_id"] or "?",
                             "start_s": row["clip_start_s"] or 0.0} for row in found])
    return [row | {"title": labels[row["clip_id"]]} for row in found]


def mixes(tables: Tables, shards_dir: Path | None) -> dict[str, Any]:
    """Compiled mixes, and beside the one that was packed the counts from its tars and whether they agree."""
    by_digest: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in tables.rows("select * from mix order by name, digest, component", "mix"):
        by_digest[row["digest"]].append(row)
    count = count_shards(shards_dir) if shards_dir and shards_dir.is_dir() else None
    packed = _packed_mix(tables, set(by_digest), shards_dir) if count else None
    shown = []
    for digest, rows in by_digest.items():
        weights, realised = sum(r["weight"] for r in rows), sum(r["realised"] for r in rows)
        for row in rows:
            row |= {"asked_share": row["weight"] / weights if weights else 0.0,
                    "real_share": row["realised"] / realised if realised else 0.0}
            if digest == packed:
                row |= _counted(row, count)
        extra = sorted(set(count.clips) - {r["component"] for r in rows}) if digest == packed else []
        shown.append({"name": rows[0]["name"], "digest": digest, "unit": rows[0]["unit"], "rows": rows,
                      "packed": digest == packed, "extra": extra,
                      "agrees": digest == packed and not extra and all(r["agrees"] for r in rows)})
    return {"mixes": shown, "count": count, "matched": packed is not None}


def _packed_mix(tables: Tables, digests: set[str], shards_dir: Path) -> str | None:
    """The mix that a shard folder was packed from: by the folder's name, the sample table, or being the only one."""
    if shards_dir.name in digests:
        return shards_dir.name
    noted = {row["mix"] for row in tables.rows("select distinct mix from sample", "sample")} & digests
    candidates = noted or digests
    return next(iter(candidates)) if len(candidates) == 1 else None


def _counted(row: dict[str, Any], count: Any) -> dict[str, Any]:
    clips, frames = count.clips.get(row["component"], 0), count.frames.get(row["component"], 0)
    agrees = clips == row["clips"] and (row["unit"] != UNIT_FRAMES or frames == row["realised"])
    return {"counted_clips": clips, "counted_frames": frames, "agrees": agrees}


def trained(training_dir: Path | None) -> dict[str, Any] | None:
    if training_dir is None or not training_dir.is_dir():
        return None
    steps, curves = training.read_curves(training_dir)
    found = training.read_figures(training_dir)
    return {"chart": figures.losses(steps, curves) if curves else None, "steps": len(steps),
            "checks": training.checks(found) if found else [], "pictures": training.pictures(training_dir),
            "figures": [(name, training.number(value)) for name, value in found.items()]}


QUERIES = (
    ("why rows were left out", "drops", "select stage, reason, count(*) n from drops group by all order by n desc"),
    ("which videos turn most", "action clip video",
     "select v.name, round(avg(list_avg(list_transform(a.yaw_deg, lambda x: abs(x)))), 2) yaw_deg_a_frame from action "
     "a join clip c using (clip_id) join video v using (video_id) group by 1 order by 2 desc limit 5"),
    ("scores that were measured", "score",
     "select name, unit, round(min(value), 3) low, round(median(value), 3) middle, round(max(value), 3) high "
     "from score group by all order by name"),
    ("frames in which something happens", "caption",
     "select clip_id, e.start_s, e.end_s, e.text from (select clip_id, unnest(events) e from caption) "
     "where e.text is not null order by clip_id, e.start_s limit 5"),
)


def queries(tables: Tables) -> list[dict[str, Any]]:
    """Example queries that these tables can answer, with the first rows of the answer."""
    shown = []
    for title, needs, sql in QUERIES:
        if set(needs.split()) <= tables.names:
            rows = tables.rows(sql, needs)
            shown.append({"title": title, "sql": sql, "rows": rows[:5], "more": max(0, len(rows) - 5)})
    return shown
