import numpy as np

from worldloom.annotators.camera.bundle import Fit, Flow, Steps
from worldloom.annotators.camera.clutter import clear_tracks
from worldloom.annotators.camera.odometry import Lens
from worldloom.annotators.camera.tracks import LIFE, Tracks

LENS, SIZE, FRAMES = Lens(160.0, 160.0, 160.0, 120.0), (240, 320), 48


def tracks_of(per_frame, body_share, seed=4):
    """Points at rest, new ones in every fourth frame; a share of them lies on a body that walks, and moves with it."""
    rng = np.random.default_rng(seed)
    start = np.repeat(np.arange(0, FRAMES - LIFE, 4), per_frame)
    place = rng.uniform((5, 5), (314, 234), (len(start), 2))
    on_body = rng.uniform(size=len(start)) < body_share
    place[on_body] = rng.uniform((134, 84), (186, 226), (on_body.sum(), 2))
    path = np.repeat(place[:, None], LIFE + 1, 1) + rng.normal(0, 0.05, (len(start), LIFE + 1, 2))
    path[on_body] += np.cumsum(rng.normal(0, 2.0, (on_body.sum(), LIFE + 1, 2)), 1)
    return Tracks(start, np.clip(path, 2, (317, 237)), FRAMES), on_body


def kept(tracks):
    flow = Flow(tracks, LENS)
    return clear_tracks(flow, Fit.of(flow, Steps.at_rest(flow)), 0.07, SIZE)


def test_tracks_of_a_walking_body_are_left_out_and_those_of_the_scene_are_heard():
    tracks, on_body = tracks_of(180, 0.25)
    inside = ((tracks.places_NK2 > (114, 64)) & (tracks.places_NK2 < (206, 236))).all(2).any(1)
    clear = kept(tracks)
    assert clear[on_body].mean() < 0.02
    assert clear[~on_body & ~inside].mean() > 0.9           # but for those that lie beside where the body strays to


def test_a_scene_without_a_body_keeps_every_track():
    tracks, _ = tracks_of(180, 0.0)
    assert kept(tracks).all()


def test_steps_with_few_tracks_keep_what_they_have():
    tracks, _ = tracks_of(25, 0.5)
    assert kept(tracks).all()
