"""Game engines that write video with exact truth: pose, keys, events and objects of every frame."""

from worldloom.dataengine.record.params import EpisodeParams
from worldloom.dataengine.record.truth import Truth, read_truth, write_truth

__all__ = ["EpisodeParams", "Truth", "read_truth", "write_truth"]
