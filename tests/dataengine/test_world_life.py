"""People, roofs and looks of the procedural world."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from worldloom.dataengine.record.cli import record_app
from worldloom.dataengine.record.truth import read_truth, sidecar_path
from worldloom.dataengine.record.world import WorldParams, record_world
from worldloom.dataengine.record.world.params import SCENES
from worldloom.dataengine.record.world.people import make_people
from worldloom.dataengine.record.world.play import Play, View, camera_of
from worldloom.dataengine.record.world.player import collides
from worldloom.dataengine.record.world.render import Renderer
from worldloom.dataengine.record.world.scene import NO_ROOF_M, Environment
from worldloom.dataengine.record.world.scenes import make_scene
from worldloom.schemas import ConfigError

SMALL = dict(width=160, height=120)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), scene=st.sampled_from(SCENES))
def test_people_walk_on_the_ground_without_jumps_and_never_in_a_wall(seed, scene):
    place = make_scene(scene, seed)
    obstacles = place.obstacles(place.first_state(Environment()))
    people = make_people(place, obstacles, 4, seed)
    assert people
    for person in people:
        poses = [person.at(t, place) for t in np.arange(0, 40, 0.25)]
        at = np.array([pose.position_3 for pose in poses])
        assert np.linalg.norm(np.diff(at[:, :2], axis=0), axis=1).max() <= person.speed_m_s * 0.25 + 1e-9
        assert np.ptp(at[:, :2], axis=0).max() > 0.5
        np.testing.assert_allclose(at[:, 2], place.ground_of(at[:, :2]))
        assert not any(collides(feet, obstacles) for feet in at[::4])
        turns = [abs((b.yaw_deg - a.yaw_deg + 180) % 360 - 180) for a, b in pairwise(poses)]
        assert max(turns) <= 180 * 0.25 / 0.5 + 1e-6


def test_pixels_of_people_are_inside_their_boxes_and_the_boxes_where_the_truth_says():
    params = WorldParams(scene="rooms", seed=1, people=12, policy="rotate", seconds=3)
    game, shares = Play(params), []
    with closing(Renderer(game.scene, camera_of(params), 0.0, 1.0, people=len(game.people))) as renderer:
        for frame in range(params.num_frames):
            game.advance(frame, [])
            view = game.view(frame)
            row = game.body_columns(frame, view)
            boxes = [thing.box for thing in game.look(game.state, view) if thing.kind == "person"]
            game.act(frame)
            nearest_m = min(np.linalg.norm(pose.position_3[:2] - view.position_3[:2]) for pose in view.people)
            if frame % 12 or not boxes or nearest_m < 1:
                continue
            away = tuple(replace(pose, is_shown=False) for pose in view.people)
            with_people, _ = renderer.draw(game.state, view)
            without, _ = renderer.draw(game.state, replace(view, people=away))
            changed = np.argwhere((with_people != without).any(axis=2))[:, ::-1]
            inside = np.zeros(len(changed), bool)
            for x, y, w, h in boxes:
                inside |= ((changed >= [x - 2, y - 2]) & (changed < [x + w + 2, y + h + 2])).all(axis=1)
            shares.append(inside.mean())
            feet = np.array([[person[key] for key in ("x", "y", "z")] for person in row["people"]])
            np.testing.assert_array_equal(feet[:, [0, 2]], [pose.position_3[:2] for pose in view.people])
    assert len(shares) >= 3 and min(shares) > 0.97 and np.median(shares) == 1    # a sleeve may show beside a wall


def test_people_are_in_the_truth_of_a_recording_and_stand_still_in_a_loop(tmp_path):
    options = dict(scenes=["rooms"], seed=4, seconds=1, people=3, **SMALL)
    video, = record_world(tmp_path, **options)
    column = pq.read_table(sidecar_path(video)).column("people").to_pylist()
    assert [[row["person"] for row in rows] for rows in column] == [[0, 1, 2]] * 24
    assert column[0] != column[-1] and len(read_truth(sidecar_path(video))) == 24
    loop, = record_world(tmp_path, policy="loop", **options)
    still = pq.read_table(sidecar_path(loop)).column("people").to_pylist()
    assert all(rows == still[0] for rows in still)
    again, = record_world(tmp_path / "again", **options)
    assert read_truth(sidecar_path(again)).meta == read_truth(sidecar_path(video)).meta


def test_rain_falls_in_the_street_and_not_under_a_roof_where_the_floor_stays_dry():
    game = Play(WorldParams(scene="town", seed=2))
    door = game.scene.doors[0]
    x, y = door.centre_2
    dry, wet = game.state.copy(), game.state.copy()
    wet.environment = replace(wet.environment, rain=1.0)

    def moving_share(renderer: Renderer, place: tuple[float, float, float], yaw_deg: float) -> float:
        at = np.array(place)
        one, other = (renderer.draw(wet, View(at, yaw_deg, -5.0, t, at))[0] for t in (1.0, 1.13))
        return float((one != other).any(axis=2).mean())

    with closing(Renderer(game.scene, camera_of(game.params), game.azimuth_deg, 1.0)) as renderer:
        assert moving_share(renderer, (x, y - 4, 1.65), 0.0) > 0.02
        assert moving_share(renderer, (x + 1, y + 2.5, 1.65), 90.0) == 0.0
        inside, street = np.array([x, y + 2.5, 1.65]), np.array([x, y - 5, 1.65])
        darker = []
        for at in (inside, street):
            view = View(at, 0.0, -80.0, 1.0, at)
            darker.append(renderer.draw(wet, view)[0].mean() / renderer.draw(dry, view)[0].mean())
    assert darker[0] > darker[1] + 0.1          # wet ground is darker; under the roof only the sky's light is less


def test_roofs_cover_houses_and_nothing_else():
    town, hills = make_scene("town", 2), make_scene("terrain", 2)
    height_RR = town.roof_heights()
    x0, y0, x1, y1, z = town.roofs[0]
    middle = [round((value + 72) / 0.25) for value in ((y0 + y1) / 2, (x0 + x1) / 2)]
    assert height_RR[tuple(middle)] == z and height_RR[0, 0] == NO_ROOF_M
    area = sum((c - a) * (d - b) for a, b, c, d, _ in town.roofs)
    assert (height_RR > 0).sum() / 16 == pytest.approx(area, rel=0.05)      # roofs end within a cell of a quarter metre
    assert (hills.roof_heights() == NO_ROOF_M).all()


def test_variants_have_the_same_poses_and_actions_bit_for_bit_and_another_look(tmp_path):
    told = CliRunner().invoke(record_app, ["world", "--scenes", "town,rooms", "--seconds", "1", "--variants", "2",
                                           "--people", "2", "--event", "object_added@0.5", "--width", "160",
                                           "--height", "120", "--perspective", "tps", "--out", str(tmp_path)])
    assert told.exit_code == 0, told.output
    for name in ("world_town_tps_mixed_1", "world_rooms_tps_mixed_1001"):
        first, *others = (pq.read_table(tmp_path / f"{name}{part}.truth.parquet") for part in ("", "_v1", "_v2"))
        metas = [read_truth(tmp_path / f"{name}{part}.truth.parquet").meta for part in ("", "_v1", "_v2")]
        for other in others:
            same = [column for column in first.column_names if not column.startswith(("env_", "event_px"))]
            assert other.select(same).equals(first.select(same))
        assert [meta["variant_of"] for meta in metas] == [None, f"{name}.mp4", f"{name}.mp4"]
        assert len({meta["pictures_sha1"] for meta in metas}) == 3
        assert len({str(meta["params"]["variant"]) for meta in metas}) == 3


@pytest.mark.parametrize("fields, message", [(dict(people=21), "people 21 must be in 0 to 20"),
                                             (dict(variant=-1), "variant -1 0 or more")])
def test_a_wrong_number_is_one_clear_error(fields, message):
    with pytest.raises(ConfigError, match=message):
        WorldParams(**fields)
