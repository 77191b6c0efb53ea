"""The label bench's own arithmetic: what it records is decided by its seed, and it counts what it says it counts."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import labels_score as S  # noqa: E402
from labels_record import GROUPS, MAPS, clip_plans  # noqa: E402


def test_equal_seeds_plan_equal_clips_whichever_engines_are_asked_for():
    both, one = clip_plans(7, ("vizdoom", "world")), clip_plans(7, ("vizdoom",))
    assert [p for p in both if p.engine == "vizdoom"] == one
    assert one != clip_plans(8, ("vizdoom",))


def test_each_known_lens_group_of_the_game_has_its_clips_on_maps_of_their_own():
    for name in ("rectified", "native_hud"):
        places = [p.place for p in clip_plans(3, ("vizdoom",)) if p.group == name]
        assert len(set(places)) == len(places) == len(GROUPS[name].kinds) and set(places) <= set(MAPS)


def test_a_quick_run_keeps_a_clip_of_each_group():
    assert {p.group for p in clip_plans(1, ("vizdoom", "world"), quick=True)} == set(GROUPS)


def test_macro_f1_is_the_mean_over_the_classes_that_the_truth_holds():
    truth, label = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    assert S.macro_f1(truth, label) == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert S.macro_f1(truth, truth) == 1.0


def test_certain_figures_leave_uncertain_frames_out_of_the_accuracy_and_in_the_coverage():
    axis = S.Axis(truth=np.array([0, 1, 1, -1]), label=np.array([0, 1, 2, 1]), forced=np.array([0, 1, 0, 1]))
    assert S.certain_figures(axis) == (pytest.approx(2 / 3), 0.75)


def test_a_jump_track_has_an_onset_at_each_rise():
    assert S.jump_onsets(np.array([0, 1, 1, 0, 2, 1, 0])) == [1, 5]
