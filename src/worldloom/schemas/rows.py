"""The row types of every table. Units end a name; ranges are half-open; unknown is None (NaN inside a track).

Axes: camera x right, y down, z forward (OpenCV); canonical world y down, so a level camera looking ahead is the
identity. Action index t is the motion from frame t-1 to t; index 0 is at rest.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from worldloom.schemas.arrow import column, table, track
from worldloom.schemas.errors import DataError

UNCERTAIN = 2
"""Value of a discrete action that cannot be told from what was measured."""

EVENT = pa.struct([("start_s", pa.float64()), ("end_s", pa.float64()), ("text", pa.string()), ("kind", pa.string())])
REASON = pa.struct([("reason", pa.string()), ("rule", pa.string()), ("value", pa.float64())])


@table("source", key="source_id")
class Source:
    """Where videos come from: one folder, list, bucket or recorder, with the terms they are under."""
    source_id: str = column("hash of kind and name")
    name: str = column("name given in the plan")
    kind: str = column("reader that opened it: folder, posed, vizdoom")
    licence: str | None = column("licence as declared, SPDX where there is one")
    url: str | None = column("public address of the origin")
    perspective: str = column("fps, tps or uncertain, as declared")
    pose_mode: str = column("none: to be estimated; given: a pose file; engine: exact recorder truth")
    convention: str | None = column("declared pose convention, such as c2w/opencv/matrix")
    scale_status: str = column("exact, metric, relative or unknown")


@table("video", key="video_id")
class Video:
    """One readable video file of a source; facts come from its packets, not from its header."""
    video_id: str = column("SHA-256 of the bytes")
    source_id: str = column("source it came from")
    name: str = column("path inside the source, POSIX, byte for byte (surrogate escapes as backslash escapes)")
    bytes: int = column("file size", unit="bytes")
    container: str = column("format as probed, whatever the extension says")
    codec: str = column("video codec")
    pix_fmt: str = column("pixel format")
    stream_index: int = column("index of the chosen video stream")
    width: int = column("width as displayed: upright, square pixels", unit="px")
    height: int = column("height as displayed: upright, square pixels", unit="px")
    rotation_deg: int = column("display rotation that was applied, clockwise", unit="deg")
    sample_aspect_ratio: float = column("pixel width over height as stored")
    num_frames: int = column("frames that its packets show; what does not decode is dropped by name when it is cut",
                             unit="frames")
    header_frames: int | None = column("frames that the header claims", unit="frames")
    start_s: float = column("time of the first frame", unit="s")
    duration_s: float = column("from the first frame to the end of the last", unit="s")
    fps: float = column("median frame rate", unit="1/s")
    is_variable_rate: bool = column("frame intervals differ by more than 10 percent")
    is_interlaced: bool = column("the first frame is marked interlaced")
    backend: str = column("decoder used: pyav, decord or torchcodec")
    notes: list[str] = column("what was unusual, one line each")
    sidecar: str | None = column("path inside the source of the pose or truth file")
    about: str | None = column("what its source says of it, untrusted, as a JSON object: text (a caption or task), "
                               "url, key, licence, and facts by the source's own names", default=None)


@table("clip", key="clip_id")
class Clip:
    """Consecutive frames of one video, [start_frame, stop_frame) in display order, as a canonical media file."""
    clip_id: str = column("hash of video, range and clip specification: the same on every machine")
    video_id: str = column("video it was cut from")
    source_id: str = column("source of that video")
    start_frame: int = column("first source frame", unit="frames")
    stop_frame: int = column("one past the last source frame", unit="frames")
    start_s: float = column("time of the first frame by the file's own timestamps", unit="s")
    stop_s: float = column("time where the last frame ends", unit="s")
    num_frames: int = column("frames of the canonical clip", unit="frames")
    fps: float = column("constant rate of the canonical clip", unit="1/s")
    width: int = column("canonical width", unit="px")
    height: int = column("canonical height", unit="px")
    source_frames: list[int] = column("source frame shown at each canonical frame; never one twice", unit="frames")
    frame_times_s: list[float] = column("time of each canonical frame in the video", unit="s")
    scale_x: float = column("canonical over displayed source pixels, horizontally")
    scale_y: float = column("canonical over displayed source pixels, vertically")
    crop_x_px: float = column("left of the crop in displayed source pixels, before scaling", unit="px")
    crop_y_px: float = column("top of the crop in displayed source pixels, before scaling", unit="px")
    media: str = column("path of the canonical file inside the corpus")
    media_bytes: int = column("size of the canonical file", unit="bytes")
    media_sha256: str = column("SHA-256 of the canonical file")
    cut_by: str = column("what set the first frame: start, window, or detectors joined by +: histogram, teleport, "
                         "transnet")
    split: str = column("train or test, by hash of the source video")
    encoder: str = column("encoder that wrote it; libx264 gives the same bytes again", default="libx264")
    has_audio: bool = column("the file has an audio track, cut to the clip's times", default=False)

    def __post_init__(self) -> None:
        if not 0 <= self.start_frame < self.stop_frame:
            raise DataError(f"clip {self.clip_id}: frames [{self.start_frame}, {self.stop_frame}) hold nothing")
        if not len(self.source_frames) == len(self.frame_times_s) == self.num_frames:
            raise DataError(f"clip {self.clip_id}: {self.num_frames} frames, {len(self.source_frames)} source frames, "
                            f"{len(self.frame_times_s)} times; they must agree")


@table("camera", key="clip_id")
class Camera:
    """The camera of a clip, one pose a frame, given or estimated."""
    clip_id: str = column("clip")
    estimator: str = column("given, odometry, sfm or the learned model, with its version, such as odometry/1")
    chosen_because: str = column("why this estimator made the track")
    pose_source: str = column("engine, file or estimated")
    camera_model: str = column("pinhole, or yshear: pitch shifts the picture, as old raycast engines draw it")
    num_frames: int = column("poses, equal to the clip's frames", unit="frames")
    world_from_cam_T44: np.ndarray = track("camera-to-world, row-major", pa.float64(), width=16)
    intrinsics_T4: np.ndarray = track("fx, fy, cx, cy of the canonical clip", pa.float64(), width=4, unit="px")
    confidence: np.ndarray = track("trust in the pose step into each frame, 0 to 1", pa.float32())
    yaw_se_deg: np.ndarray = track("standard error of the yaw step", pa.float32(), unit="deg")
    pitch_se_deg: np.ndarray = track("standard error of the pitch step", pa.float32(), unit="deg")
    travel_se_deg: np.ndarray = track("standard error of the direction of travel; NaN where no travel was fitted or "
                                      "poses are given", pa.float32(), unit="deg")
    parallax_px: np.ndarray = track("median image motion of the step left after removing rotation; NaN where poses are "
                                    "given and no pixel was looked at", pa.float32(), unit="px")
    is_calibrated: bool = column("the focal length is known or was found; else angles scale with a guess")
    focal_source: str = column("declared, file, found in the pixels, or assumed")
    focal_spread: float | None = column("standard error of a found focal length over its value")
    perspective_seen: str = column("fps, tps or uncertain, as the pixels show")
    scale_status: str = column("exact, metric, relative or unknown")
    metres_per_unit: float | None = column("metres in one unit of translation", unit="m")
    scale_spread: float | None = column("p90 over p10 of the scale")
    gravity_source: str = column("engine, imu, estimated or assumed")
    gravity_confidence: float = column("0 to 1")


@table("action", key="clip_id")
class Action:
    """Actions of a clip, one a frame: index t is the motion from t-1 to t, index 0 is at rest."""
    clip_id: str = column("clip")
    labeller: str = column("name and version of the labelling profile")
    num_frames: int = column("equal to the clip's frames", unit="frames")
    yaw_deg: np.ndarray = track("change of gravity-aligned heading, right positive", pa.float32(), unit="deg")
    pitch_deg: np.ndarray = track("change of elevation, up positive", pa.float32(), unit="deg")
    yaw_se_deg: np.ndarray = track("standard error of yaw_deg", pa.float32(), unit="deg")
    pitch_se_deg: np.ndarray = track("standard error of pitch_deg", pa.float32(), unit="deg")
    longitudinal: np.ndarray = track("forward +1, none 0, backward -1, uncertain 2", pa.int8())
    lateral: np.ndarray = track("right +1, none 0, left -1, uncertain 2", pa.int8())
    longitudinal_confidence: np.ndarray = track("0 to 1", pa.float32())
    lateral_confidence: np.ndarray = track("0 to 1", pa.float32())
    jump: np.ndarray = track("1 from take-off to landing, 0 none, 2 uncertain", pa.int8())
    perspective: str = column("fps, tps or uncertain")
    intent_longitudinal: np.ndarray | None = track("recorded keys: -1, 0, +1", pa.int8())
    intent_lateral: np.ndarray | None = track("recorded keys: -1, 0, +1", pa.int8())
    blocked: np.ndarray | None = track("1 where a movement key is down and the camera stays", pa.int8())
    residual: np.ndarray | None = track("1 where the camera moves with no movement key down", pa.int8())
    certain_share: float = column("share of frames whose movement is not uncertain")


@table("caption", key="clip_id")
class Caption:
    """Structured caption: scene and character say what stays, events say what happens; none speaks of the camera."""
    clip_id: str = column("clip")
    captioner: str = column("name and version, such as rules/1")
    basis: str = column("engine: written from recorded events; pixels: from picture statistics; model: by a VLM")
    scene: str = column("what stays in view")
    character: str | None = column("the controlled character; null in first person")
    ui: str | None = column("overlays; null when none")
    events: list = column("intervals [start_s, end_s) that tile the clip", arrow=pa.list_(EVENT))


@table("score", key="clip_id")
class Score:
    """One number measured on a clip; policies judge it, nothing is dropped here."""
    clip_id: str = column("clip")
    name: str = column("what was measured, such as blur")
    value: float | None = column("the number; null where it could not be measured")
    unit: str = column("unit of the value; empty for a ratio")
    frames: list[int] = column("frames where it is worst, at most 8", unit="frames")


@table("selection", key="clip_id")
class Selection:
    """Verdict of a policy on a clip, with every rule that it fails, in order."""
    clip_id: str = column("clip")
    selection: str = column("name of the policy")
    kept: bool = column("no rule failed")
    reasons: list = column("every failed rule with the value found", arrow=pa.list_(REASON))


@table("drop", key="row_key")
class Drop:
    """A row that a stage left out on purpose, with its reason."""
    stage: str = column("stage that dropped it")
    row_key: str = column("key of the row, or the name of the file")
    reason: str = column("short machine-readable reason")
    detail: str = column("what was found and what was wanted")


@table("failure", key="row_key")
class Failure:
    """A row that could not be processed, with its error."""
    stage: str = column("stage in which it failed")
    row_key: str = column("key of the row, or the name of the file")
    error: str = column("kind of error")
    detail: str = column("one line: what was found and what was wanted")


@table("mix", key="digest")
class Mix:
    """A compiled mix: what was asked for and what it became."""
    name: str = column("name of the mix document")
    digest: str = column("hash of the realised list")
    component: str = column("name of the component")
    unit: str = column("what weights count: clips, frames, hours or latents")
    weight: float = column("share asked for")
    available: int = column("units available", unit="units")
    allotted: int = column("units asked for after integer allotment", unit="units")
    realised: int = column("units in the compiled list", unit="units")
    clips: int = column("clips in the compiled list, repeats counted")
    repeats: float = column("times the component is passed over")


@table("sample", key="sample_key")
class Sample:
    """One training example in a shard."""
    mix: str = column("digest of the mix")
    shard: str = column("file name of the tar")
    sample_key: str = column("key inside the tar, without dots")
    clip_id: str = column("clip")
    component: str = column("component of the mix")
    ordinal: int = column("position in the mix's order")
    repeat: int = column("0 for the first occurrence of the clip")
    start_frame: int = column("first frame of the clip used", unit="frames")
    num_frames: int = column("frames used", unit="frames")
    offset: int = column("byte offset of the first member in the tar", unit="bytes")
    bytes: int = column("bytes of the members", unit="bytes")


@table("run", key="run_id")
class Run:
    """One stage of one run: the row account rows_in = done + dropped + failed."""
    run_id: str = column("hash of the resolved plan and its inputs")
    stage: str = column("stage")
    part: str = column("key of the part")
    version: int = column("version of the stage")
    rows_in: int = column("rows given to the stage", unit="rows")
    done: int = column("rows processed", unit="rows")
    dropped: int = column("rows left out with a reason", unit="rows")
    failed: int = column("rows with an error", unit="rows")
    rows_out: int = column("rows written", unit="rows")


@table("evaluation", key="checkpoint")
class Evaluation:
    """One figure measured on a trained model, joined to the mix and the checkpoint that made it."""
    checkpoint: str = column("hash of the checkpoint")
    mix: str | None = column("digest of the mix it was trained on")
    metric: str = column("what was measured")
    value: float = column("the figure")
    detail: str = column("how it was measured")


@table("audit", key="clip_id")
class Audit:
    """Labels of a clip held against its pixels by dense flow, which the camera estimators do not use.

    A check is 1 where the pixels agree with the label, 0 where they disagree, 2 where nothing can be told.
    """
    clip_id: str = column("clip")
    method: str = column("name and version of the check, such as dis_flow/1")
    num_frames: int = column("equal to the clip's frames", unit="frames")
    verdict: str = column("agrees, disagrees, shifted, or cannot be told")
    agreement: float | None = column("lowest share of agreeing frames over the judged axes; null where none is judged")
    checked: int = column("checks made, over all axes")
    yaw_agreement: float | None = column("share of checked frames whose yaw sign agrees")
    yaw_checked: int = column("frames whose yaw was checked", unit="frames")
    pitch_agreement: float | None = column("share of checked frames whose pitch sign agrees")
    pitch_checked: int = column("frames whose pitch was checked", unit="frames")
    longitudinal_agreement: float | None = column("share of checked frames that expand or contract as labelled")
    longitudinal_checked: int = column("frames whose forward or backward label was checked", unit="frames")
    lateral_agreement: float | None = column("share of checked frames with parallax to the labelled side")
    lateral_checked: int = column("frames whose right or left label was checked", unit="frames")
    still_agreement: float | None = column("share of checked frames that stay where the label says no movement")
    still_checked: int = column("frames labelled without movement that were checked", unit="frames")
    lag_frames: int = column("frames that the labels come late by, as flow and turns correlate best", unit="frames")
    lag_gain: float = column("correlation at that lag over the one at none")
    worst_frames: list[int] = column("frames where most checks disagree, worst first, at most 8", unit="frames")
    yaw_seen_deg: np.ndarray = track("turn by the mean flow, translation included; NaN where no flow was measured",
                                     pa.float32(), unit="deg")
    pitch_seen_deg: np.ndarray = track("look by the mean flow, translation included; NaN where no flow was measured",
                                       pa.float32(), unit="deg")
    yaw_check: np.ndarray = track("check of the yaw sign", pa.int8())
    pitch_check: np.ndarray = track("check of the pitch sign", pa.int8())
    longitudinal_check: np.ndarray = track("check of forward or backward", pa.int8())
    lateral_check: np.ndarray = track("check of right or left", pa.int8())
    still_check: np.ndarray = track("check of no movement", pa.int8())


@table("trajectory", key="trajectory_id")
class Trajectory:
    """A camera path that came without pictures, labelled as a clip is: the tracks are those of `camera` and `action`.

    Index t is the motion from pose t-1 to t; index 0 is at rest.
    """
    trajectory_id: str = column("SHA-256 of the pose file")
    source_id: str = column("source it came from")
    name: str = column("path inside the source of the pose file")
    labeller: str = column("name and version of the labelling profile")
    num_frames: int = column("poses", unit="frames")
    fps: float = column("poses a second: the usual step of their times, else as declared", unit="1/s")
    pose_mode: str = column("given: a pose file; engine: exact recorder truth")
    convention: str | None = column("how the file's own numbers were read, such as w2c/opencv/matrix")
    scale_status: str = column("exact, metric or unknown, as the pose file shows; `source` has what the format "
                               "promises")
    metres_per_unit: float | None = column("metres in one unit of translation", unit="m")
    gravity_source: str = column("engine, imu, estimated or assumed")
    gravity_confidence: float = column("0 to 1")
    path_length: float = column("sum of the steps, vertical ones too, in the file's own units")
    heading_range_deg: float = column("widest difference of the headings that the turns add up to", unit="deg")
    forward_frames: int = column("frames labelled forward", unit="frames")
    backward_frames: int = column("frames labelled backward", unit="frames")
    left_frames: int = column("frames labelled left", unit="frames")
    right_frames: int = column("frames labelled right", unit="frames")
    turning_frames: int = column("frames that turn by at least 3 degrees a second and three standard errors",
                                 unit="frames")
    certain_share: float = column("share of frames whose movement is not uncertain")
    perspective: str = column("fps, tps or uncertain")
    world_from_cam_T44: np.ndarray = track("camera-to-world, row-major", pa.float64(), width=16)
    yaw_deg: np.ndarray = track("change of gravity-aligned heading, right positive", pa.float32(), unit="deg")
    pitch_deg: np.ndarray = track("change of elevation, up positive", pa.float32(), unit="deg")
    yaw_se_deg: np.ndarray = track("standard error of yaw_deg", pa.float32(), unit="deg")
    pitch_se_deg: np.ndarray = track("standard error of pitch_deg", pa.float32(), unit="deg")
    longitudinal: np.ndarray = track("forward +1, none 0, backward -1, uncertain 2", pa.int8())
    lateral: np.ndarray = track("right +1, none 0, left -1, uncertain 2", pa.int8())
    longitudinal_confidence: np.ndarray = track("0 to 1", pa.float32())
    lateral_confidence: np.ndarray = track("0 to 1", pa.float32())
    jump: np.ndarray = track("1 from take-off to landing, 0 none, 2 uncertain", pa.int8())
    intent_longitudinal: np.ndarray | None = track("recorded keys: -1, 0, +1", pa.int8())
    intent_lateral: np.ndarray | None = track("recorded keys: -1, 0, +1", pa.int8())
    blocked: np.ndarray | None = track("1 where a movement key is down and the camera stays", pa.int8())
    residual: np.ndarray | None = track("1 where the camera moves with no movement key down", pa.int8())
