"""A place: its still mesh and walls, the things in it that can change, and what state those are in."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from worldloom.dataengine.record.world.mesh import Mesh
from worldloom.dataengine.record.world.space import ray_length

OPEN_ENOUGH_DEG = 60.0          # a door this far open lets through
DOOR_HEIGHT_M = 2.15
TERRAIN_STEP_M = 0.3
ROOF_REACH_M, ROOF_CELL_M, NO_ROOF_M = 72.0, 0.25, -1000.0


@dataclass(frozen=True, slots=True, eq=False)
class Prop:
    """A thing that can appear, vanish, fall or be taken; its mesh stands on its own origin."""
    kind: str
    mesh: Mesh
    position_3: np.ndarray
    half_x: float
    half_y: float
    height: float
    solid: bool = True

    def box(self, position_3: np.ndarray) -> list[float]:
        """Low and high corner of the thing at a position."""
        x, y, z = (float(value) for value in position_3)
        return [x - self.half_x, y - self.half_y, z, x + self.half_x, y + self.half_y, z + self.height]


@dataclass(frozen=True, slots=True, eq=False)
class Door:
    """A leaf that turns about an upright hinge; closed it lies along x (axis 0) or y (axis 1)."""
    mesh: Mesh
    hinge_2: tuple[float, float]
    axis: int
    width: float

    @property
    def centre_2(self) -> np.ndarray:
        x, y = self.hinge_2
        return np.array([x + self.width / 2, y] if self.axis == 0 else [x, y + self.width / 2])

    def box(self) -> list[float]:
        x, y = self.hinge_2
        along, across = (self.width, 0.06) if self.axis == 0 else (0.06, self.width)
        low = (x, y - 0.06) if self.axis == 0 else (x - 0.06, y)
        return [*low, 0.0, x + along, y + across, DOOR_HEIGHT_M]


@dataclass(frozen=True, slots=True)
class Environment:
    """Weather and light, each 0 to 1; the sun's azimuth and height stay as they are through an episode."""
    daylight: float = 1.0
    rain: float = 0.0
    snow: float = 0.0
    fog: float = 0.0
    lamps: float = 1.0
    cloud: float = 0.3


@dataclass(slots=True)
class State:
    """What can change: of each prop whether it is there and where, of each door how far it is open (degrees)."""
    environment: Environment
    present: list[bool]
    positions: list[np.ndarray]
    door_deg: list[float]

    def copy(self) -> State:
        return State(self.environment, list(self.present), list(self.positions), list(self.door_deg))


@dataclass(slots=True, eq=False)
class Scene:
    """A place made from a name and a seed. `boxes` are its still walls, low and high corners (N, 6)."""
    name: str
    seed: int
    mesh: Mesh = field(default_factory=Mesh)
    walls: list[list[float]] = field(default_factory=list)
    props: list[Prop] = field(default_factory=list)
    doors: list[Door] = field(default_factory=list)
    lamps: list[list[float]] = field(default_factory=list)      # x, y, z, red, green, blue
    roofs: list[list[float]] = field(default_factory=list)      # low x, low y, high x, high y, height of the underside
    height_HW: np.ndarray | None = None                         # hills: height at whole metres, middle at the origin
    start: tuple[float, float, float] = (0.0, 0.0, 0.0)         # x, y, heading
    boxes_N6: np.ndarray = field(default_factory=lambda: np.zeros((0, 6)))

    @property
    def is_indoor(self) -> bool:
        return self.name == "rooms"

    def solid(self, material: str, low: list[float] | tuple[float, ...], high: list[float] | tuple[float, ...],
              **look: object) -> None:
        """A box that is seen and walked against."""
        self.mesh.box(material, low, high, **look)      # type: ignore[arg-type]
        self.walls.append([*low, *high])

    def close(self) -> Scene:
        """The finished scene, with its walls as an array."""
        self.boxes_N6 = np.array(self.walls, float).reshape(-1, 6)
        return self

    def roof_heights(self) -> np.ndarray:
        """Height (R, R) of the highest roof over squares of ROOF_CELL_M, middle at the origin, rows along y; else far

        below the ground.
        """
        side = round(2 * ROOF_REACH_M / ROOF_CELL_M)
        height_RR = np.full((side, side), NO_ROOF_M, np.float32)
        for x0, y0, x1, y1, z in self.roofs:
            a, b, c, d = (round((value + ROOF_REACH_M) / ROOF_CELL_M) for value in (x0, y0, x1, y1))
            height_RR[b:d, a:c] = np.maximum(height_RR[b:d, a:c], z)
        return height_RR

    def first_state(self, environment: Environment) -> State:
        return State(environment, [True] * len(self.props), [prop.position_3 for prop in self.props],
                     [0.0] * len(self.doors))

    def obstacles(self, state: State) -> np.ndarray:
        """All that stops a body now, (M, 6): walls, solid things that are there, doors that are shut."""
        moving = [prop.box(at) for prop, there, at in zip(self.props, state.present, state.positions, strict=False)
                  if there and prop.solid]
        moving += [door.box() for door, deg in zip(self.doors, state.door_deg, strict=True)
                   if abs(deg) < OPEN_ENOUGH_DEG]
        return np.concatenate([self.boxes_N6, np.array(moving, float).reshape(-1, 6)])

    def ground(self, x: float, y: float) -> float:
        return float(self.ground_of(np.array([[x, y]]))[0])

    def ground_of(self, xy_N2: np.ndarray) -> np.ndarray:
        """Height (N,) of the ground: on the drawn triangles of the hills, else 0."""
        if self.height_HW is None:
            return np.zeros(len(xy_N2))
        last = self.height_HW.shape[0] - 1
        u, v = np.clip(np.asarray(xy_N2, float).T + last / 2, 0, last - 1e-6)
        i, j = v.astype(int), u.astype(int)
        a, b = v - i, u - j
        near, far = self.height_HW[i, j], self.height_HW[i + 1, j + 1]
        corner = np.where(b > a, self.height_HW[i, j + 1], self.height_HW[i + 1, j])
        return near + (corner - near) * np.maximum(a, b) + (far - corner) * np.minimum(a, b)

    def free_length(self, obstacles_N6: np.ndarray, origin_3: np.ndarray, direction_3: np.ndarray,
                    limit_m: float) -> float:
        """Metres that a ray runs before a box or the ground, at most `limit_m`."""
        free = ray_length(obstacles_N6, origin_3, direction_3, limit_m)
        if self.height_HW is None or free <= TERRAIN_STEP_M:
            return free
        along = np.arange(TERRAIN_STEP_M, free, TERRAIN_STEP_M)
        points = origin_3 + along[:, None] * direction_3
        under = np.nonzero(points[:, 2] < self.ground_of(points[:, :2]) + 0.1)[0]
        return float(along[under[0]]) if len(under) else free
