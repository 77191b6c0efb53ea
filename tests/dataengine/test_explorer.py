"""Players that cover maps of ViZDoom, its scenarios, and the events that they meet."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from worldloom.dataengine.record import EpisodeParams, read_truth
from worldloom.dataengine.record import vizdoom as engine
from worldloom.dataengine.record.events import KINDS, Doors, Events
from worldloom.dataengine.record.explorer import covered_area_m2
from worldloom.dataengine.record.floorplan import floor_plan, turn_towards_deg
from worldloom.dataengine.record.truth import sidecar_path
from worldloom.schemas import ConfigError


def sector(x0, y0, x1, y1, floor=0.0, ceiling=128.0):
    corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
    lines = [SimpleNamespace(x1=a[0], y1=a[1], x2=b[0], y2=b[1])
             for a, b in zip(corners, corners[1:] + corners[:1], strict=True)]
    return SimpleNamespace(lines=lines, floor_height=floor, ceiling_height=ceiling)


@pytest.mark.parametrize("middle, passes", [
    (dict(), True), (dict(ceiling=0.0), True), (dict(floor=24.0), True),           # open, a shut door, a step
    (dict(floor=32.0), False), (dict(ceiling=40.0), False)])                       # too high, too low
def test_a_way_goes_through_doors_and_over_steps_but_not_over_walls(middle, passes):
    plan = floor_plan([sector(0, 0, 256, 128), sector(256, 0, 320, 128, **middle), sector(320, 0, 640, 128)])
    goal = plan.place(600, 64)
    ways = plan.ways(plan.place(50, 64), lambda place: place == goal)
    assert bool(ways) == passes
    assert not plan.free_HW[plan.place(4, 64)] and not plan.free_HW[plan.place(300, 4)]
    if passes:
        assert len(ways[0]) == goal[1] - plan.place(50, 64)[1] and ways[0][-1] == goal
        np.testing.assert_allclose(plan.middle(goal), (600, 64), atol=8)


def test_turning_towards_a_place_is_positive_to_the_right():
    assert turn_towards_deg(0, 0, 90, (10, 0)) == pytest.approx(90)
    assert turn_towards_deg(0, 0, 0, (10, 10)) == pytest.approx(-45)


def area_m2(tmp_path, name, policy):
    truth = read_truth(sidecar_path(engine.record_episode(tmp_path, EpisodeParams(map=name, policy=policy, tics=450))))
    return covered_area_m2(truth.world_from_cam_T44[:, [0, 2], 3])


def test_the_covering_player_covers_more_than_the_one_that_goes_by_depth(tmp_path):
    areas = {policy: [area_m2(tmp_path, name, policy) for name in ("map01", "map10")]
             for policy in ("explore", "cover")}
    assert sum(areas["cover"]) > 1.5 * sum(areas["explore"])
    assert covered_area_m2(np.array([[1, 1], [63, 63], [64, 1], [-1, 1]])) == 3 * 4.0


def test_events_are_met_and_listed_with_their_frames_and_places(tmp_path):
    params = EpisodeParams(map="map01", policy="events", tics=500, seed=3)
    truth = read_truth(sidecar_path(engine.record_episode(tmp_path, params)))
    listed = truth.meta["events"]
    assert [(event["frame"], event["kind"]) for event in listed] == [
        (i, event["kind"]) for i, events in enumerate(truth.events) for event in events]
    assert {"weapon_switch", "fight", "door_open"} <= {event["kind"] for event in listed} <= set(KINDS)
    at = listed[-1]
    np.testing.assert_allclose(at["position"], truth.world_from_cam_T44[at["frame"], :3, 3], atol=1e-3)
    again = read_truth(sidecar_path(engine.record_episode(tmp_path / "again", params)))
    np.testing.assert_array_equal(again.world_from_cam_T44, truth.world_from_cam_T44)
    assert again.meta == truth.meta


def test_a_fight_begins_once_until_it_is_quiet_again_and_pickups_are_told_apart():
    seen = Events()
    base = dict(kills=0, hits=0, hits_taken=0, items=0, secrets=0, health=90, armor=0, weapons=2, ammo=50, weapon=2)
    seen.seen(base)
    kinds = [[event["kind"] for event in seen.seen(base | {"hits": hits})] for hits in (1, 2)]
    assert kinds == [["hit", "fight"], ["hit"]]
    for _ in range(105):
        assert seen.seen(base | {"hits": 2}) == []
    told = seen.seen(base | {"hits": 3, "armor": 5, "weapons": 3}, 0, 1)
    assert [event["kind"] for event in told] == ["hit", "armor_pickup", "weapon_pickup", "door_close", "fight"]


def test_a_door_shuts_after_it_was_opened_and_is_not_told_from_far_away():
    lines = [np.array([[50.0, 0.0]])]

    def shuts(position):
        doors = Doors()
        doors.used(0)
        heights = [0, 2, 4, 4, 4, 4, 4, 4, 2, 0]
        for frame, height in enumerate(heights):
            doors.opened(frame, np.array([[0.0, height]]), lines, (0, 0) if frame < 4 else position)
            if doors.closed:
                return frame
        return None

    assert shuts((100, 0)) == 8 and shuts((900, 0)) is None


def test_maps_and_scenarios_are_chosen_by_name_number_range_or_all():
    assert engine.chosen_maps("map03, 5,7-9") == ["map03", "map05", "map07", "map08", "map09"]
    assert len(engine.chosen_maps("all")) == 32 and len(engine.chosen_maps("all", "freedoom1.wad")) == 36
    assert engine.chosen_maps("all", scenario="cig") == ["map01", "map02"]
    assert engine.chosen_scenarios("") == [""] and "my_way_home" in engine.chosen_scenarios("all")
    with pytest.raises(ConfigError, match="unknown scenario 'moon'; the engine has basic"):
        engine.chosen_scenarios("moon")
    with pytest.raises(ConfigError, match="go backwards"):
        engine.chosen_maps("9-7")


@pytest.mark.parametrize("scenario", ["my_way_home", "health_gathering", "cig"])
def test_a_scenario_is_recorded_as_a_place_of_its_own(scenario, tmp_path):
    params = EpisodeParams(scenario=scenario, policy="cover", tics=40)
    truth = read_truth(sidecar_path(engine.record_episode(tmp_path, params)))
    assert truth.meta["scenario"] == scenario and params.name == f"vizdoom_{scenario}_map01_cover_1"
    assert len(truth) == 40 and np.ptp(truth.world_from_cam_T44[:, :3, 3], axis=0).max() > 30
    again = read_truth(sidecar_path(engine.record_episode(tmp_path / "again", params)))
    np.testing.assert_array_equal(again.world_from_cam_T44, truth.world_from_cam_T44)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", engine.known_scenarios())
def test_every_map_of_every_scenario_records(scenario, tmp_path):
    paths = engine.record_many(tmp_path, engine.chosen_maps("all", scenario=scenario), 1, 1, 35, "events",
                               scenario=scenario)
    assert paths and all(len(read_truth(sidecar_path(path))) >= 2 for path in paths)
