"""Views of how far and how fast: the action-scale table by source, and the speed of every clip.

Each is a table macro with its parameter, and a view of the same name without. A latent is `stride` frames: latent i
holds frames stride (i - 1) + 1 to stride i, as a causal video autoencoder makes them; frame 0 is alone.
"""

from __future__ import annotations

from worldloom.dataengine.geometry.scale import (
    FLYING_CLIMB_M,
    FLYING_CLIMB_SHARE,
    MAX_STRIDE,
    RETIMED_RATIO,
    SPEED_BUCKETS,
    WALKING_SPEED_M_S,
)

FLAGGED_SHARE = 0.25                   # a source further from the corpus's median is flagged
_TURN_DEG = 0.1                        # a latent that turns by less, or by less than twice its error, does not turn
_LOST_DEG = 25.0                       # standard error of a step that is a cut in the path, not a turn
_METRES = "scale_status IN ('exact', 'metric')"

# One row a frame: place, labels, and metres in one unit (null where the track has no metres).
_FRAMES = """
    SELECT s.name AS source, c.clip_id, c.fps, cam.scale_status, cam.is_calibrated,
           CASE WHEN cam.scale_status IN ('exact', 'metric') THEN cam.metres_per_unit END AS unit_m,
           unnest(generate_series(0, a.num_frames - 1)) AS frame, unnest(cam.world_from_cam_T44) AS pose,
           unnest(a.yaw_deg) AS yaw_deg, unnest(a.yaw_se_deg) AS yaw_se_deg, unnest(a.longitudinal) AS forward,
           unnest(a."lateral") AS sideways
    FROM clip c JOIN source s USING (source_id) JOIN camera cam ON cam.clip_id = c.clip_id
    JOIN "action" a ON a.clip_id = c.clip_id"""

_LATENTS = f"""
    SELECT source, clip_id, scale_status, is_calibrated, (frame - 1) // stride AS latent,
           sqrt((last(pose[4] ORDER BY frame) - first(before_x ORDER BY frame)) ** 2
                + (last(pose[12] ORDER BY frame) - first(before_z ORDER BY frame)) ** 2)
               * coalesce(any_value(unit_m), 1) AS distance,
           2 * count(*) FILTER (forward = 1) > stride AS is_w,
           abs(sum(yaw_deg)) AS turn_deg,
           abs(sum(yaw_deg)) > greatest({_TURN_DEG}, 2 * sqrt(sum(yaw_se_deg * yaw_se_deg))) AS is_turn,
           bool_or(yaw_se_deg > {_LOST_DEG}) AS is_cut
    FROM (SELECT *, lag(pose[4]) OVER way AS before_x, lag(pose[12]) OVER way AS before_z
          FROM ({_FRAMES}) WINDOW way AS (PARTITION BY clip_id ORDER BY frame))
    WHERE frame > 0 GROUP BY ALL HAVING count(*) = stride"""

_SCALE = f"""
    WITH latents AS ({_LATENTS}),
    usual AS (SELECT median(distance) FILTER (is_w AND {_METRES}) AS w, median(turn_deg) FILTER (is_turn) AS turn
              FROM latents WHERE NOT is_cut),
    tall AS (
        SELECT source, scale_status, count(DISTINCT clip_id) AS clips, count(*) AS latents,
               CASE WHEN {_METRES} THEN 'm' ELSE 'unit' END AS unit,
               count(*) FILTER (is_w) AS w_latents, median(distance) FILTER (is_w) AS w_median,
               quantile_cont(distance, 0.25) FILTER (is_w) AS w_q25,
               quantile_cont(distance, 0.75) FILTER (is_w) AS w_q75,
               count(*) FILTER (is_turn) AS turn_latents, median(turn_deg) FILTER (is_turn) AS turn_median_deg,
               quantile_cont(turn_deg, 0.25) FILTER (is_turn) AS turn_q25_deg,
               quantile_cont(turn_deg, 0.75) FILTER (is_turn) AS turn_q75_deg,
               bool_and(is_calibrated) AS is_calibrated
        FROM latents WHERE NOT is_cut GROUP BY source, scale_status)
    SELECT source, scale_status, clips, latents, w_latents, w_median, w_q25, w_q75, unit,
           unit = 'm' AS w_is_comparable, w_median / usual.w - 1 AS w_off,
           unit = 'm' AND coalesce(abs(w_median / usual.w - 1) > {FLAGGED_SHARE}, false) AS w_flagged,
           turn_latents, turn_median_deg, turn_q25_deg, turn_q75_deg, is_calibrated,
           turn_median_deg / usual.turn - 1 AS turn_off,
           coalesce(abs(turn_median_deg / usual.turn - 1) > {FLAGGED_SHARE}, false) AS turn_flagged
    FROM tall, usual ORDER BY source, scale_status"""

_BUCKET = " ".join(f"WHEN speed_m_s < {end} THEN '{name}'" for name, end in SPEED_BUCKETS)

_SPEED = f"""
    WITH steps AS (
        SELECT *, fps * unit_m * sqrt((pose[4] - lag(pose[4]) OVER way) ** 2
                                      + (pose[12] - lag(pose[12]) OVER way) ** 2) AS speed,
               unit_m * abs(pose[8] - lag(pose[8]) OVER way) AS climb
        FROM ({_FRAMES}) WINDOW way AS (PARTITION BY clip_id ORDER BY frame)),
    clips AS (
        SELECT clip_id, source, fps, scale_status,
               avg((forward IN (-1, 1) OR sideways IN (-1, 1))::INT) AS moving_share,
               CASE WHEN any_value(unit_m) IS NOT NULL
                    THEN coalesce(median(speed) FILTER (forward IN (-1, 1) OR sideways IN (-1, 1)), 0) END AS speed_m_s,
               any_value(unit_m) * (max(pose[8]) - min(pose[8])) AS climb_m,
               sum(climb) / nullif(sum(climb) + sum(speed / fps), 0) AS climb_share
        FROM steps GROUP BY clip_id, source, fps, scale_status)
    SELECT clip_id, source, fps, scale_status, moving_share, speed_m_s, speed_m_s / usual_m_s AS speed_ratio,
           CASE WHEN speed_m_s IS NULL THEN 'unknown'
                WHEN climb_m > {FLYING_CLIMB_M} AND climb_share > {FLYING_CLIMB_SHARE} THEN 'drone'
                {_BUCKET} ELSE 'unknown' END AS bucket,
           (SELECT arg_min(k, abs(ln(k * speed_m_s / usual_m_s))) FROM range(1, {MAX_STRIDE + 1}) AS strides(k)
            WHERE speed_m_s > 0 AND k * speed_m_s / usual_m_s BETWEEN {RETIMED_RATIO[0]} AND {RETIMED_RATIO[1]}
           )::BIGINT AS retime_stride
    FROM clips"""

MACROS = {
    # Distance of a W latent and degrees of a turning latent by source: median, quartiles, whether they fit the rest.
    "action_scale_at(stride)": _SCALE,
    # Median speed of each clip where it moves, against the speed wanted; its bucket; the stride that would fit it.
    "clip_speed_at(usual_m_s)": _SPEED,
}
SCALE_VIEWS = {
    "action_scale": "SELECT * FROM action_scale_at(4)",
    "clip_speed": f"SELECT * FROM clip_speed_at({WALKING_SPEED_M_S})",
}
