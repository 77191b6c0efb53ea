import numpy as np
import pytest

from worldloom.annotators.camera.plane_twin import other_motion
from worldloom.dataengine.geometry import poses as P

TRAVEL = np.array([0.35, 0.0, -0.25])


def wall(seed, share=1.0):
    """Rays in two frames of points on a wall aslant, the rest anywhere; X2 = R X1 + TRAVEL, R a turn of 8 degrees."""
    rng = np.random.default_rng(seed)
    turn = P.look(np.array([8.0]), np.zeros(1))[0].T
    rays = np.column_stack([rng.uniform(-0.7, 0.7, (80, 2)), np.ones(80)])
    depth = 3.0 / (rays @ np.array([0.4, 0.1, 0.9]))
    depth[int(80 * share):] = rng.uniform(1.5, 6, 80 - int(80 * share))
    points = rays * depth[:, None]
    moved = points @ turn.T + TRAVEL
    return rays, moved / moved[:, 2:], turn


@pytest.mark.parametrize("seed", range(4))
def test_from_the_wrong_turn_of_a_wall_the_true_one_is_found_and_back(seed):
    rays_a, rays_b, turn = wall(seed, share=0.7)
    twin, _ = other_motion(rays_a, rays_b, turn, 200.0)
    assert np.degrees(np.linalg.norm(P.so3_log(twin @ turn.T))) > 2
    found, travel = other_motion(rays_a, rays_b, twin, 200.0)
    assert np.degrees(np.linalg.norm(P.so3_log(found @ turn.T))) < 0.3
    assert travel @ TRAVEL / np.linalg.norm(TRAVEL) > 0.99


def test_without_a_plane_or_with_few_tracks_there_is_no_other_motion():
    rays_a, rays_b, turn = wall(0, share=0.1)
    assert other_motion(rays_a, rays_b, turn, 200.0) is None
    rays_a, rays_b, turn = wall(0)
    assert other_motion(rays_a[:15], rays_b[:15], turn, 200.0) is None
