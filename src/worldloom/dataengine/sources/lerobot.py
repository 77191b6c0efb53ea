"""LeRobot datasets, v2 and v3: one video an episode and camera, with the episode's task as its text.

A v3 file holds many episodes; each is cut out of it by its own timestamps, without a second encoding.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from worldloom.dataengine.sources.about import about_text
from worldloom.dataengine.sources.lerobot_meta import INFO, Camera, Robot, Take, read_robot
from worldloom.dataengine.sources.lerobot_pictures import encode, episodes_of
from worldloom.dataengine.sources.packed import BROKEN, Brought, Bundle, PackedReader, failed, link, missing, one_line
from worldloom.schemas import DataError, ids


class LeRobotReader(PackedReader):
    """The episodes of a dataset, or of every dataset under a folder of them."""

    def bundles(self) -> Iterator[Bundle]:
        for info in self.matching("info.json"):
            if f"/{self.inside(info)}".endswith(f"/{INFO}"):
                yield from self._dataset(info.parents[1])

    def wanted(self, path: Path) -> bool:
        """`only` speaks of videos; what describes them is always read."""
        return path.name == "info.json" or super().wanted(path)

    def _dataset(self, folder: Path) -> Iterator[Bundle]:
        prefix = "" if folder == self.origin else f"{self.inside(folder)}/"
        try:
            robot = read_robot(folder)
        except BROKEN as error:
            yield Bundle(prefix + INFO, (), partial(_problem, prefix + INFO, one_line(error)))
            return
        for camera in robot.cameras:
            if camera.problem:
                yield Bundle(prefix + camera.key, (), partial(_problem, prefix + camera.key, camera.problem))
                continue
            takes = []
            for row in robot.episodes:
                try:
                    takes.append(robot.take(row, camera))
                except BROKEN as error:
                    name = f"{prefix}{camera.key}/episode_{row['episode_index']!s:.20}"
                    yield Bundle(name, (), partial(_problem, name, one_line(error)))
            yield from self._bundles(robot, camera, [t for t in takes if self.wanted(folder / t.path)], prefix)

    def _bundles(self, robot: Robot, camera: Camera, takes: list[Take], prefix: str) -> Iterator[Bundle]:
        """A bundle for each file that episodes share, or for each folder of files that they do not."""
        linked = robot.is_per_episode and not camera.in_tables

        def place(take: Take) -> str:
            return posixpath.dirname(take.path) if linked else take.path

        for path, group in groupby(sorted(takes, key=lambda take: (place(take), take.episode)), key=place):
            shared = list(group)
            bring = bring_pictures if camera.in_tables else bring_takes
            yield Bundle(f"{prefix}{camera.key} of {path}", () if linked else (robot.folder / path,),
                         partial(bring, robot, camera, shared, prefix),
                         said=ids.digest([str(robot.fps), *map(str, shared)]))


def _problem(name: str, problem: str, root: Path) -> Iterator[Brought]:
    yield Brought(name, problem=problem)


def bring_takes(robot: Robot, camera: Camera, takes: list[Take], prefix: str, root: Path) -> Iterator[Brought]:
    """The episodes that one video file, or one folder of them, holds of a camera."""
    for take in takes:
        name = place_of(camera, take.episode, prefix)
        try:
            _bring(robot, take, root / name)
        except BROKEN as error:
            yield failed(name, error, f"episode {take.episode}: ")
        else:
            yield Brought(name, about=about_text(_facts(robot, camera, take)))


def bring_pictures(robot: Robot, camera: Camera, takes: list[Take], prefix: str, root: Path) -> Iterator[Brought]:
    """The episodes whose pictures one table holds, encoded once, near lossless."""
    left = {take.episode: take for take in takes}
    path = takes[0].path
    if problem := missing(robot.folder / path):
        raise DataError(f"{path} {problem}")
    for episode, pictures in episodes_of(robot.folder / path, camera.key, robot.folder):
        take = left.pop(episode, None)
        if take is None:
            continue
        name = place_of(camera, episode, prefix)
        try:
            encode(pictures, take.length, robot.fps, root / name)
        except BROKEN as error:
            yield failed(name, error, f"episode {episode}: ")
        else:
            yield Brought(name, about=about_text(_facts(robot, camera, take)))
    for episode in left:
        yield Brought(place_of(camera, episode, prefix), problem=f"episode {episode} has no row in {path}")


def place_of(camera: Camera, episode: int, prefix: str) -> str:
    return f"{prefix}{camera.key}/episode_{episode:06d}.mp4"


def _bring(robot: Robot, take: Take, target: Path) -> None:
    """Link the episode's own file, or cut the episode out of the file that it shares.

    Raises:
        DataError: the file is not there, or does not hold the episode's frames at its times.
    """
    from worldloom.dataengine.sources.remux import cut_range

    video = robot.folder / take.path
    if problem := missing(video):
        raise DataError(f"{take.path} {problem}")
    if take.start_s is None or take.end_s is None:
        link(video, target)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    half_s = 0.5 / robot.fps                     # timestamps are sums of rounded durations
    count = cut_range(video, target, take.start_s - half_s, take.end_s - half_s)
    if take.length is not None and count != take.length:
        target.unlink()
        raise DataError(f"{count} frames in [{take.start_s:g}, {take.end_s:g}) s of {take.path}; its length is "
                        f"{take.length}")


def _facts(robot: Robot, camera: Camera, take: Take) -> dict[str, Any]:
    text = {"text": "; ".join(take.tasks)} if take.tasks else {}
    many = {"tasks": list(take.tasks)} if len(take.tasks) > 1 else {}
    return text | many | {
        "key": f"{camera.key}/{take.episode}", "camera": camera.key, "episode_index": take.episode,
        "length": take.length, "fps": robot.fps, "robot_type": robot.robot_type, "codebase_version": robot.version,
        "data": take.data, "data_rows": list(take.rows) if take.rows else None, "start_s": take.start_s,
        "end_s": take.end_s}
