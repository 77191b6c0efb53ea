"""The views that answer everyday questions; each is one query over the tables."""

from worldloom.dataengine.catalog.scale_views import SCALE_VIEWS

VIEWS = {
    "drops": "SELECT * FROM \"drop\"",
    "failures": "SELECT * FROM failure",
    # One row a stage: rows_in = done + dropped + failed.
    "stage_accounts": """
        SELECT stage, sum(rows_in)::BIGINT AS rows_in, sum(done)::BIGINT AS done, sum(dropped)::BIGINT AS dropped,
               sum(failed)::BIGINT AS failed, sum(rows_out)::BIGINT AS rows_out
        FROM run GROUP BY stage ORDER BY stage""",
    # One row a clip with what people filter by.
    "clips": """
        SELECT c.clip_id, c.video_id, s.name AS source, s.licence, v.name AS video, c.split, c.start_s, c.stop_s,
               c.num_frames, c.fps, c.num_frames / c.fps AS duration_s, c.width, c.height,
               CASE WHEN a.perspective IN ('fps', 'tps') THEN a.perspective ELSE s.perspective END AS perspective,
               sel.kept, a.certain_share, au.agreement AS label_agreement,
               list_avg(list_transform(a.yaw_deg, lambda y: abs(y))) AS yaw_abs_deg_mean,
               coalesce(len(list_filter(cap.events, lambda e: e."text" IS NOT NULL)) > 0, false) AS has_event,
               cap.scene, c.media
        FROM clip c JOIN source s USING (source_id) JOIN video v ON v.video_id = c.video_id
        LEFT JOIN action a ON a.clip_id = c.clip_id LEFT JOIN selection sel ON sel.clip_id = c.clip_id
        LEFT JOIN caption cap ON cap.clip_id = c.clip_id LEFT JOIN audit au ON au.clip_id = c.clip_id""",
    # One row a frame: actions unnested for frame-level questions.
    "action_frames": """
        SELECT clip_id, unnest(generate_series(0, num_frames - 1)) AS frame, unnest(yaw_deg) AS yaw_deg,
               unnest(pitch_deg) AS pitch_deg, unnest(longitudinal) AS longitudinal, unnest("lateral") AS "lateral",
               unnest(jump) AS jump, perspective
        FROM action""",
    # One row a clip and score name.
    "reasons": """
        SELECT r.reason, count(*) AS clips, avg(r.value) AS mean_value
        FROM (SELECT unnest(reasons) AS r FROM selection) GROUP BY r.reason ORDER BY clips DESC""",
    # Shard -> sample -> clip -> video -> source, for licences and provenance.
    "lineage": """
        SELECT sa.shard, sa.sample_key, sa.component, sa.mix, c.clip_id, v.video_id, v.name AS video,
               s.name AS source, s.licence, c.start_frame, c.stop_frame
        FROM sample sa JOIN clip c USING (clip_id) JOIN video v ON v.video_id = c.video_id
        JOIN source s ON s.source_id = c.source_id""",
} | SCALE_VIEWS
