"""Small corpora written through the real store: computed videos, real labels tables."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import av
import numpy as np

from worldloom.dataengine.store import write_table
from worldloom.schemas import Action, Camera, Caption, Clip, Selection, Source, Video


def video_bytes(num_frames: int, shade: int) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=8, options={"preset": "ultrafast", "threads": "1"})
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for t in range(num_frames):
            picture = np.full((32, 32, 3), (shade * 40 + t * 5) % 250, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return file.getvalue()


def make_corpus(corpus: Path, sources: dict[str, list[int]], *, unlabelled: tuple[str, ...] = (),
                media: bool = False) -> Path:
    """One video a source; `sources[name]` holds the frames of its clips; clip ids are NAME-00000."""
    tables: dict[type, list] = {t: [] for t in (Source, Video, Clip, Camera, Action, Caption, Selection)}
    for name, lengths in sources.items():
        tables[Source].append(Source(source_id=name, name=name, kind="folder", licence="CC0-1.0", url=None,
                                     perspective="fps", pose_mode="none", convention=None, scale_status="unknown"))
        tables[Video].append(_video(name))
        for i, n in enumerate(lengths):
            _add_clip(corpus, tables, name, i, n, unlabelled, media)
    for row_type, rows in tables.items():
        write_table(corpus, row_type.__name__.lower(), "k", rows, row_type)
    for table in ("mix", "sample"):
        (corpus / "tables" / table).mkdir(exist_ok=True)
    return corpus


def _video(name: str) -> Video:
    return Video(video_id=name, source_id=name, name=f"{name}.mp4", bytes=1, container="mp4", codec="h264",
                 pix_fmt="yuv420p", stream_index=0, width=32, height=32, rotation_deg=0, sample_aspect_ratio=1.0,
                 num_frames=100, header_frames=None, start_s=0.0, duration_s=1.0, fps=8.0, is_variable_rate=False,
                 is_interlaced=False, backend="pyav", notes=[], sidecar=None)


def _add_clip(corpus: Path, tables: dict, name: str, i: int, n: int, unlabelled: tuple[str, ...],
              media: bool) -> None:
    clip_id, data = f"{name}-{i:05d}", b"-"
    if media:
        data = video_bytes(n, i % 5)
        (corpus / "media").mkdir(parents=True, exist_ok=True)
        (corpus / "media" / f"{clip_id}.mp4").write_bytes(data)
    tables[Clip].append(Clip(
        clip_id=clip_id, video_id=name, source_id=name, start_frame=0, stop_frame=n, start_s=0.0, stop_s=n / 8,
        num_frames=n, fps=8.0, width=32, height=32, source_frames=list(range(n)),
        frame_times_s=[t / 8 for t in range(n)], scale_x=1.0, scale_y=1.0, crop_x_px=0.0, crop_y_px=0.0,
        media=f"media/{clip_id}.mp4", media_bytes=len(data), media_sha256=hashlib.sha256(data).hexdigest(),
        cut_by="window", split="train"))
    tables[Selection].append(Selection(clip_id=clip_id, selection="default", kept=True, reasons=[]))
    if clip_id in unlabelled:
        return
    nan, zero = np.full(n, np.nan, np.float32), np.zeros(n, np.float32)
    yaw = zero + i
    yaw[-1] = np.nan
    moves = np.ones(n, np.int8)
    moves[0], moves[1:2] = 0, 2
    tables[Camera].append(Camera(
        clip_id=clip_id, estimator="given", chosen_because="test", pose_source="file",
        camera_model="pinhole", num_frames=n,
        world_from_cam_T44=np.tile(np.eye(4), (n, 1, 1)), intrinsics_T4=np.full((n, 4), 16.0), confidence=zero + 1,
        yaw_se_deg=zero, pitch_se_deg=zero, parallax_px=nan, travel_se_deg=nan, is_calibrated=True,
        focal_source="file", focal_spread=None, perspective_seen="uncertain", scale_status="metric",
        metres_per_unit=1.0, scale_spread=None, gravity_source="assumed", gravity_confidence=0.5))
    tables[Action].append(Action(
        clip_id=clip_id, labeller="pose/1", num_frames=n, yaw_deg=yaw, pitch_deg=zero, yaw_se_deg=zero,
        pitch_se_deg=zero, longitudinal=moves, lateral=np.zeros(n, np.int8), longitudinal_confidence=zero + 1,
        lateral_confidence=zero + 1, jump=np.zeros(n, np.int8), perspective="fps", intent_longitudinal=None,
        intent_lateral=None, blocked=None, residual=None, certain_share=0.9))
    if i % 2:
        events = [{"start_s": 0.0, "end_s": n / 8, "text": "a door opens", "kind": "door"}]
        tables[Caption].append(Caption(clip_id=clip_id, captioner="rules/1", basis="engine", scene="A hall.",
                                       character=None, ui=None, events=events))
