import json
from dataclasses import replace

import imageio_ffmpeg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldloom.annotators.captions.events import MAX_PIECE_S, MIN_PIECE_S, piece_bounds, tile_events
from worldloom.annotators.captions.interface import Evidence, RecordedEvent, Truth
from worldloom.annotators.captions.render import event_at, render
from worldloom.annotators.captions.rules import RulesCaptioner, counted, plain_name, things_in_view
from worldloom.annotators.captions.stage import CaptionParams, CaptionStage, read_truth
from worldloom.annotators.captions.validate import MAX_ANSWER_BYTES, camera_phrases, parse_answer, validate
from worldloom.dataengine.stage import Context
from worldloom.schemas import Caption, Clip, ConfigError, DataError, Score, Video, from_table, to_table

FPS = 16.0
GOOD = {"scene": "A dim hall.", "character": None, "ui": None, "events": [
    {"start_s": 0.0, "end_s": 2.5, "text": "A door opens.", "kind": "environment"},
    {"start_s": 2.5, "end_s": 4.0, "text": None, "kind": "none"}]}


def clip_of(num_frames: int, source_frames: list[int] | None = None) -> Clip:
    frames = source_frames or list(range(num_frames))
    return Clip(
        clip_id="c", video_id="v", source_id="s", start_frame=frames[0], stop_frame=frames[-1] + 1, start_s=0.0,
        stop_s=num_frames / FPS, num_frames=num_frames, fps=FPS, width=64, height=48, source_frames=frames,
        frame_times_s=[i / FPS for i in range(num_frames)], scale_x=1.0, scale_y=1.0, crop_x_px=0.0, crop_y_px=0.0,
        media="c.mp4", media_bytes=1, media_sha256="", cut_by="start", split="train")


def evidence_of(frames_THWC: np.ndarray, perspective: str = "fps", truth: Truth | None = None, **scores) -> Evidence:
    count = len(frames_THWC)
    return Evidence(clip=clip_of(count * 4), video=None, perspective=perspective, frames_THWC=frames_THWC,
                    times_s=np.arange(count) / 4, scores=scores, truth=truth)


def flat(*levels: tuple[int, int, int], each: int = 4) -> np.ndarray:
    return np.stack([np.full((48, 64, 3), rgb, np.uint8) for rgb in levels for _ in range(each)])


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 2000), st.floats(1, 120), st.lists(st.integers(0, 2000), max_size=12))
def test_pieces_tile_a_clip_in_two_to_five_seconds(num_frames, fps, event_frames):
    bounds = piece_bounds(num_frames, fps, [f for f in event_frames if f < num_frames])
    assert bounds[0] == 0 and bounds[-1] == num_frames and bounds == sorted(set(bounds))
    lengths_s = np.diff(bounds) / fps
    assert lengths_s.max() <= MAX_PIECE_S + 1e-9
    assert num_frames < 2 * fps or lengths_s.min() > MIN_PIECE_S - 1 / fps


def test_pieces_start_at_recorded_events():
    assert piece_bounds(160, 16.0, [48, 50, 155]) == [0, 48, 104, 160]


def test_every_caption_of_the_rules_validates_and_tiles_exactly():
    for rgb in [(0, 0, 0), (120, 80, 40), (30, 30, 30), (90, 160, 230), (255, 255, 255)]:
        for perspective in ("fps", "tps", "uncertain"):
            evidence = evidence_of(flat(rgb, each=13), perspective)
            caption = RulesCaptioner().caption(evidence)
            assert caption.pop("basis") == "pixels"
            assert validate(caption, evidence.duration_s, perspective) == []
            events = caption["events"]
            assert all(a["end_s"] == b["start_s"] for a, b in zip(events, events[1:], strict=False))
            assert events[-1]["end_s"] == evidence.duration_s
            assert (caption["character"] is None) == (perspective != "tps")


@pytest.mark.parametrize(("rgb", "words"), [
    ((128, 128, 128), "evenly lit scene in grey"), ((110, 70, 30), "dim interior in brown"),
    ((40, 200, 40), "scene in green"), ((40, 60, 220), "scene in blue"), ((220, 20, 20), "scene in red"),
    ((245, 245, 245), "bright scene in white"), ((25, 25, 25), "dark interior in black")])
def test_a_scene_names_its_light_and_colour(rgb, words):
    frames_THWC = flat(rgb)
    if "interior" not in words:
        frames_THWC[:, :16] //= 2       # no bright sky above
        frames_THWC[:, :16] += frames_THWC[:, 16:17] - frames_THWC[:, 16:17] // 2
    assert words in RulesCaptioner().caption(evidence_of(frames_THWC))["scene"]


def test_recorded_things_are_named_and_counted_and_those_passing_by_are_not():
    views = [("Zombieman", "Zombieman", "ExplosiveBarrel", "DoomPlayer", "BulletPuff")] * 9 + [("DoomImp",)]
    assert things_in_view(Truth(objects=tuple(views))) == ["a barrel", "two zombies"]
    truth = Truth(objects=tuple(views), hud=True, weapon=True)
    caption = RulesCaptioner().caption(evidence_of(flat((60, 60, 60)), truth=truth))
    assert caption["scene"].startswith("A dim interior in grey with a barrel and two zombies in view.")
    assert caption["ui"] == "A status bar along the lower edge and a held weapon at the lower middle."
    assert caption["basis"] == "engine"


def test_class_names_become_plain_words():
    assert plain_name("ShotgunGuy") == "zombie with a shotgun" and counted("zombie with a shotgun", 2) == (
        "two zombies with a shotgun")
    assert plain_name("BlueSkullKey3") == "blue skull key" and plain_name("DoomPlayer") is None
    assert counted("imp", 1) == "an imp" and counted("body", 3) == "three bodies" and counted("box", 12) == (
        "several boxes")


def test_recorded_events_are_told_once_in_the_piece_they_show_in():
    truth = Truth(events=(RecordedEvent(40, "door_open", "a door opens"), RecordedEvent(41, "hit", "an enemy is hit"),
                          RecordedEvent(44, "hit", "an enemy is hit")))
    events = tile_events(evidence_of(flat((60, 60, 60), each=24), truth=truth))
    assert [e["text"] for e in events] == [None, "A door opens, then an enemy is hit."]
    assert events[1]["start_s"] == 2.5 and events[1]["kind"] == "interaction" and events[0]["kind"] == "none"


def test_a_change_of_weapon_is_told_only_where_the_weapon_is_drawn():
    switch = (RecordedEvent(3, "weapon_switch", "the player changes weapons"),)
    told = [tile_events(evidence_of(flat((60, 60, 60)), truth=Truth(events=switch, weapon=drawn)))[0]["text"]
            for drawn in (False, True)]
    assert told == [None, "The player changes weapons."]


def test_a_change_of_light_is_told_only_where_the_view_stays():
    frames_THWC = flat((40, 40, 40), (120, 120, 120))
    still, moving = evidence_of(frames_THWC, flow_px=0.1, cut_score=0.0), evidence_of(frames_THWC, flow_px=4.0,
                                                                                    cut_score=0.0)
    assert tile_events(still)[0]["text"] == "The picture brightens."
    assert tile_events(moving)[0]["text"] is None
    assert tile_events(evidence_of(frames_THWC))[0]["text"] is None
    red = evidence_of(flat((60, 60, 60), (150, 40, 40)), flow_px=0.1, cut_score=0.0)
    assert tile_events(red)[0]["text"] == "The picture turns red."


def test_a_good_caption_has_no_problems():
    assert validate(GOOD, 4.0, "fps") == []


def event(**change):
    return [GOOD["events"][0] | change, GOOD["events"][1]]


@pytest.mark.parametrize(("change", "problem"), [
    ({"scene": 3}, "scene: found int, wanted text"), ({"scene": " "}, "scene: empty"),
    ({"scene": "x" * 2001}, "scene: 2001 bytes, at most 2000"), ({"ui": "\ud800"}, "ui: holds control"),
    ({"character": "A knight."}, "character: wanted null in first person"), ({"mood": "x"}, "unknown field 'mood'"),
    ({"events": []}, "events: wanted a list"), ({"events": [None]}, "events[0]: found NoneType"),
    ({"events": event(end_s=2.0)}, "events[1].start_s: 2.5, wanted 2"),
    ({"events": event(start_s=0.5)}, "events[0].start_s: 0.5, wanted 0"),
    ({"events": event(end_s=0.0)}, "events[0].end_s: 0 is not after"),
    ({"events": event(end_s=float("nan"))}, "must be finite"), ({"events": event(end_s=True)}, "must be finite"),
    ({"events": event(kind="magic")}, "events[0].kind: 'magic', wanted one of"),
    ({"events": event(colour=1)}, "events[0]: unknown field 'colour'"),
    ({"events": GOOD["events"][:1]}, "events: end at 2.5 s, the clip at 4 s"),
    ({"events": [*GOOD["events"], {"start_s": 4.0, "end_s": 5.0, "text": None, "kind": "none"}]}, "past the clip's"),
    ({"events": event(text="The camera pans left.")}, "events[0].text: speaks of the camera"),
])
def test_each_problem_names_its_field(change, problem):
    assert any(problem in line for line in validate(GOOD | change, 4.0, "fps"))
    assert all("\n" not in line for line in validate(GOOD | change, 4.0, "fps"))


def test_a_lacking_field_is_a_problem():
    assert validate({k: v for k, v in GOOD.items() if k != "ui"}, 4.0) == ["caption: no field 'ui'"]


@pytest.mark.parametrize("text", [
    "The camera pans left.", "The view slowly turns to the door.", "A slow camera movement.",
    "It zooms in on a barrel.",
    "A first-person view of a hall.", "A wide shot of hills.", "The player moves forward.", "We walk forward.",
    "The player strafes.", "Pressing W near a wall.", "Holding the shift key.", "WASD", "A point-of-view scene.",
    "The perspective shifts.", "The viewpoint rises above the hill.", "The player looks up.", "A tracking shot."])
def test_camera_and_control_words_are_found(text):
    assert camera_phrases(text)


@pytest.mark.parametrize("text", [
    "A mountain pass above a lake.", "A frying pan on a stove.", "Two frying pans left on the stove.",
    "A security camera hangs on the wall.", "A photographer with a camera.", "A shot is fired.",
    "The player is healed.",
    "The player picks up a red key.", "A house with a view of the sea.", "A key lies on the table.",
    "A press in a factory.", "The lens of a lighthouse.", "A mouse runs across the floor.", "A zoo with a lion.",
    "The enemy turns left.", "Water tilts a boat.", "An arrow flies past.", "Space station in orbit.",
    "A zombie hits a wall.", "The lift moves up.", "A tracking dog."])
def test_ordinary_words_are_not(text):
    assert camera_phrases(text) == []


def test_answers_are_read_bare_or_in_one_fence():
    text = json.dumps(GOOD)
    assert parse_answer(text) == parse_answer(f"```json\n{text}\n```") == parse_answer(f"\n```\n{text}```\n") == GOOD


@pytest.mark.parametrize(("text", "error"), [
    (json.dumps(GOOD)[:-20], "not complete JSON"), ("```json\n" + json.dumps(GOOD), "fenced block"),
    ("", "not complete"),
    ("[1]", "JSON list, wanted an object"), ('{"a": NaN}', "NaN is no JSON number"),
    ('{"a": 1, "a": 2}', "stands twice"),
    ('{"a": -Infinity}', "no JSON number"), ("[" * 20000, "answer"), ('{"a": ' + "9" * 5000 + "}", "cannot be read"),
    (json.dumps(GOOD) + " and more", "not complete JSON"), (" " * (MAX_ANSWER_BYTES + 1), "65537 bytes, at most 65536"),
])
def test_broken_answers_are_refused_in_one_line(text, error):
    with pytest.raises(DataError) as caught:
        parse_answer(text)
    assert error in str(caught.value) and "\n" not in str(caught.value)


def test_rendering_tells_the_character_in_third_person_only_and_drops_a_null_event():
    caption = GOOD | {"character": "A knight"}
    first, second = caption["events"]
    assert render(caption, "tps", first) == (
        "The scene in the video is: A dim hall. The character is: A knight. The event is: A door opens.")
    assert render(caption, "fps", second) == "The scene in the video is: A dim hall."
    assert event_at(caption, 2.5) is second and event_at(caption, 0) is first and event_at(caption, 4.0) is None


def write_truth(path, num_frames: int, events: dict[int, tuple[str, str]], **facts) -> None:
    event_type = pa.list_(pa.struct([("kind", pa.string()), ("text", pa.string())]))
    thing = pa.struct([("name", pa.string()), ("category", pa.string()), ("x", pa.int32()), ("y", pa.int32()),
                       ("w", pa.int32()), ("h", pa.int32())])
    rows = [[{"kind": events[i][0], "text": events[i][1]}] if i in events else [] for i in range(num_frames)]
    barrel = {"name": "ExplosiveBarrel", "category": "hazard", "x": 1, "y": 1, "w": 9, "h": 9}
    table = pa.table({"events": pa.array(rows, event_type), "objects": pa.array([[barrel]] * num_frames,
                                                                               pa.list_(thing))})
    pq.write_table(table.replace_schema_metadata({"worldloom": json.dumps(facts)}), path)


def test_events_of_left_out_source_frames_show_on_the_next_frame_of_the_clip(tmp_path):
    write_truth(tmp_path / "v.truth.parquet", 40, {4: ("x", "before"), 9: ("hit", "shown late"), 14: ("x", "after")},
                perspective="tps", hud=True)
    clip = clip_of(3, [6, 8, 12])
    truth, perspective = read_truth(tmp_path / "v.truth.parquet", clip)
    assert truth.events == (RecordedEvent(2, "hit", "shown late"),)
    assert truth.hud and not truth.weapon and perspective == "tps" and truth.objects == (("ExplosiveBarrel",),) * 3


def test_a_truth_file_that_is_too_short_or_broken_fails_the_clip(tmp_path):
    write_truth(tmp_path / "v.truth.parquet", 5, {})
    with pytest.raises(DataError, match="5 rows, clip c ends at source frame 7"):
        read_truth(tmp_path / "v.truth.parquet", clip_of(8))
    (tmp_path / "v.truth.parquet").write_bytes(b"PAR1 no")
    for name in ("v.truth.parquet", "gone.truth.parquet"):
        with pytest.raises(DataError, match="truth file"):
            read_truth(tmp_path / name, clip_of(8))


@pytest.fixture
def corpus(tmp_path):
    """A coded clip of 96 frames, 6 s, grey with a barrel recorded and a door that opens at 3 s."""
    writer = imageio_ffmpeg.write_frames(str(tmp_path / "c.mp4"), (64, 48), fps=FPS, macro_block_size=2)
    writer.send(None)
    for _ in range(96):
        writer.send(np.full((48, 64, 3), 60, np.uint8))
    writer.close()
    write_truth(tmp_path / "v.truth.parquet", 96, {48: ("door_open", "a door opens")}, perspective="fps")
    return tmp_path


VIDEO = Video(
    video_id="v", source_id="s", name="v.mp4", bytes=1, container="mov", codec="h264", pix_fmt="yuv420p",
    stream_index=0, width=64, height=48, rotation_deg=0,
    sample_aspect_ratio=1.0, num_frames=96, header_frames=96, start_s=0.0,
    duration_s=6.0, fps=FPS, is_variable_rate=False, is_interlaced=False, backend="pyav", notes=[],
    sidecar="v.truth.parquet")


def caption_of(corpus, params: CaptionParams | None = None, video: Video = VIDEO) -> Caption:
    stage = CaptionStage(params)
    stage.setup(Context(corpus, {"s": str(corpus)}))
    score = Score(clip_id="c", name="static_share", value=1.0, unit="", frames=[])
    (row,) = stage.process({"clip": clip_of(96), "video": video, "score": [score]})
    return row


def test_the_stage_tells_recorded_events_and_things_of_a_coded_clip(corpus):
    row = caption_of(corpus)
    assert (row.basis, row.captioner, row.character) == ("engine", "rules/1", None)
    assert row.scene == ("A dim interior in grey with a barrel in view. Surfaces are smooth and plain, and nothing "
                         "changes.")
    assert row.events == [{"start_s": 0.0, "end_s": 3.0, "text": None, "kind": "none"},
                          {"start_s": 3.0, "end_s": 6.0, "text": "A door opens.", "kind": "interaction"}]
    assert from_table(to_table([row], Caption), Caption)[0].events == row.events


def test_without_a_sidecar_the_stage_speaks_of_pictures_only(corpus):
    for row in (caption_of(corpus, CaptionParams(use_sidecar=False)),
                caption_of(corpus, video=replace(VIDEO, sidecar=None)),
                caption_of(corpus, video=replace(VIDEO, sidecar="v.poses.json"))):
        assert row.basis == "pixels" and "barrel" not in row.scene
        assert all(e["text"] is None for e in row.events)


def test_an_unknown_captioner_stops_before_any_work():
    with pytest.raises(ConfigError, match="no captioner 'magic'"):
        CaptionStage(CaptionParams(captioner="magic"))


def test_a_recorded_text_that_speaks_of_the_camera_fails_the_clip(corpus):
    write_truth(corpus / "v.truth.parquet", 96, {48: ("door_open", "the camera pans left")})
    with pytest.raises(DataError, match="clip c: caption by rules/1 refused: .*camera"):
        caption_of(corpus)
