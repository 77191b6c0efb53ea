import time
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest

from worldloom.annotators.quality.checks import UNITS, measure
from worldloom.annotators.quality.stage import ScoreParams, ScoreStage
from worldloom.dataengine.policy import SCORE_NAMES
from worldloom.dataengine.stage import Context
from worldloom.schemas import Clip, DataError

HEIGHT, WIDTH, FRAMES = 120, 160, 24


def texture_HWC(seed: int, height: int = 240, width: int = 480) -> np.ndarray:
    """Random patches of colour: texture at several scales."""
    random = np.random.default_rng(seed)
    out = np.zeros((height, width, 3))
    for cell in (8, 24, 60):
        coarse = random.normal(size=(height // cell + 2, width // cell + 2, 3))
        out += np.kron(coarse, np.ones((cell, cell, 1)))[:height, :width] * 28
    return np.clip(out + 120, 0, 255).astype(np.uint8)


def moving(step_px: int, frames: int = FRAMES, seed: int = 1) -> list[np.ndarray]:
    """A window that slides over a texture by exactly `step_px` pixels a frame."""
    picture_HWC = texture_HWC(seed)
    return [np.ascontiguousarray(picture_HWC[40:40 + HEIGHT, t * step_px:t * step_px + WIDTH]) for t in range(frames)]


def scores_of(frames: list[np.ndarray], width: int = WIDTH, stride: int = 1) -> dict:
    return {m.name: m for m in measure(frames, width=width, stride=stride)}


BLACK = [np.zeros((HEIGHT, WIDTH, 3), np.uint8)] * FRAMES


def test_black_frozen_and_normal_clips_are_told_apart_by_different_scores():
    black, frozen, normal = scores_of(BLACK), scores_of(moving(0)), scores_of(moving(3))
    assert black["black_share"].value == 1 and black["luma_mean"].value == 0
    assert black["flow_px"].value is None       # no texture whose motion could be seen
    assert frozen["black_share"].value == 0 and frozen["static_share"].value == 1
    assert frozen["duplicate_share"].value == (FRAMES - 1) / FRAMES
    assert normal["static_share"].value == normal["black_share"].value == normal["duplicate_share"].value == 0


@pytest.mark.parametrize("step_px", [1, 3, 6])
def test_flow_is_the_shift_in_pixels_of_the_canonical_width(step_px):
    flow_px = scores_of(moving(step_px), width=320)["flow_px"].value
    assert flow_px == pytest.approx(2 * step_px, rel=0.2)       # a fast, coarse search


def test_a_cut_scores_high_at_its_frame_and_a_fast_turn_does_not():
    dark_HWC = texture_HWC(9) // 3
    cut = moving(2, 12) + [np.ascontiguousarray(dark_HWC[:HEIGHT, t:t + WIDTH]) for t in range(12)]
    assert scores_of(cut)["cut_score"].value > 0.5
    assert scores_of(cut)["cut_score"].frames[0] == 12
    assert scores_of(moving(12))["cut_score"].value < 0.2


def test_a_flash_of_light_is_no_cut():
    frames = moving(2)
    frames[10:] = [np.clip(f * 0.5 + np.array([110, 100, 20]), 0, 255).astype(np.uint8) for f in frames[10:]]
    assert scores_of(frames)["cut_score"].value < 0.1


def test_blurring_lowers_blur_and_worst_frames_are_the_blurred_ones():
    import cv2
    frames = moving(2)
    frames[5:8] = [cv2.GaussianBlur(frame, (0, 0), 4) for frame in frames[5:8]]
    assert set(scores_of(frames)["blur"].frames[:3]) == {5, 6, 7}
    blurred = [cv2.GaussianBlur(frame, (0, 0), 4) for frame in frames]
    assert scores_of(blurred)["blur"].value < scores_of(frames)["blur"].value / 10


def test_letterbox_bars_are_measured_as_a_share_of_the_picture():
    frames = [frame.copy() for frame in moving(2)]
    for frame in frames:
        frame[:15] = frame[-15:] = 4
    assert scores_of(frames)["letterbox_share"].value == pytest.approx(30 / HEIGHT)
    assert scores_of(moving(2))["letterbox_share"].value == 0


def test_colour_and_clipping_have_exact_values_on_flat_pictures():
    red, white = (np.full((HEIGHT, WIDTH, 3), colour, np.uint8) for colour in ([200, 0, 0], [255, 255, 255]))
    assert scores_of([red] * 3)["saturation_mean"].value == pytest.approx(1)
    assert scores_of([red] * 3)["colour_entropy"].value == 0
    assert scores_of([white, white, red, red])["clipped_share"].value == 0.5
    assert scores_of([white, white, red, red])["colour_entropy"].value == 1


def test_a_single_frame_has_no_step_scores_and_no_frames_have_none():
    one = scores_of(moving(1, 1))
    assert one["static_share"].value is one["cut_score"].value is one["flow_px"].value is None
    assert one["blur"].value > 0
    assert all(m.value is None for m in scores_of([]).values())


def test_a_stride_changes_no_difference_score_and_hardly_the_flow():
    every, third = scores_of(moving(3)), scores_of(moving(3), stride=3)
    assert every["static_share"] == third["static_share"] and every["cut_score"] == third["cut_score"]
    assert third["flow_px"].value == pytest.approx(every["flow_px"].value, rel=0.1)


def test_every_score_has_a_unit_and_policies_know_its_name():
    assert [m.name for m in measure(moving(1, 3), width=WIDTH)] == list(UNITS) == list(SCORE_NAMES)


def write_clip(folder: Path, frames: list[np.ndarray], name: str = "a") -> Clip:
    height, width = frames[0].shape[:2]
    writer = imageio_ffmpeg.write_frames(str(folder / f"{name}.mp4"), (width, height), fps=16, macro_block_size=2,
                                         output_params=["-threads", "1", "-preset", "veryfast"])
    writer.send(None)
    for frame in frames:
        writer.send(np.ascontiguousarray(frame))
    writer.close()
    n = len(frames)
    return Clip(
        clip_id=name, video_id="v", source_id="s", start_frame=0, stop_frame=n, start_s=0.0, stop_s=n / 16,
        num_frames=n, fps=16.0, width=width, height=height, source_frames=list(range(n)),
        frame_times_s=[i / 16 for i in range(n)], scale_x=1.0, scale_y=1.0, crop_x_px=0.0, crop_y_px=0.0,
        media=f"{name}.mp4", media_bytes=1, media_sha256="", cut_by="start", split="train")


def test_the_stage_reads_a_coded_clip_and_yields_a_row_for_every_score(tmp_path):
    clip = write_clip(tmp_path, [np.repeat(np.repeat(f, 2, 0), 2, 1) for f in moving(2)])
    stage = ScoreStage(ScoreParams())
    stage.setup(Context(tmp_path))
    rows = {row.name: row for row in stage.process({"clip": clip})}
    assert list(rows) == list(UNITS)
    assert rows["flow_px"].value == pytest.approx(4, rel=0.15)      # 2 px of half size; coding blurs edges
    assert all(len(row.frames) <= 8 for row in rows.values())


def test_a_file_with_another_number_of_frames_fails_that_clip(tmp_path):
    from dataclasses import replace
    clip = write_clip(tmp_path, moving(2))
    wrong = replace(clip, num_frames=FRAMES + 1, source_frames=list(range(FRAMES + 1)),
                    frame_times_s=[0.0] * (FRAMES + 1))
    stage = ScoreStage()
    stage.setup(Context(tmp_path))
    with pytest.raises(DataError, match="holds 24 frames, its row says 25"):
        list(stage.process({"clip": wrong}))


def test_measuring_keeps_up_with_many_times_real_time():
    frames = moving(3, 48)
    start_s = time.perf_counter()
    measure(frames, width=320)
    assert len(frames) / (time.perf_counter() - start_s) > 60       # about 1,000 frames/s on an idle core
