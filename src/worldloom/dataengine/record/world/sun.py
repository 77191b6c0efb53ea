"""Shadows of the sun: a large map of what is still and a small one of what moves.

A map is drawn again only when its middle or its contents change: it is most of the cost of a shadow.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import panda3d.core as p3d

from worldloom.dataengine.record.world import engine
from worldloom.dataengine.record.world.nodes import LEAF, LOOK, SOLID, program
from worldloom.dataengine.record.world.shaders import LEAF_DEPTH_FRAGMENT, SOLID_DEPTH_FRAGMENT, SURFACE_VERTEX

AWAY_M, NEAR_M, FAR_M = 80.0, 1.0, 160.0


def use_depth_programs(camera: p3d.Camera) -> None:
    """Make a camera draw depth alone: without shading, with holes between leaves."""
    camera.setTagStateKey(LOOK)
    for look, fragment in ((SOLID, SOLID_DEPTH_FRAGMENT), (LEAF, LEAF_DEPTH_FRAGMENT)):
        state = p3d.NodePath(look)
        state.setShader(program(SURFACE_VERTEX, fragment), 100)
        state.setTransparency(p3d.TransparencyAttrib.MNone, 100)
        camera.setTagState(look, state.getState())


class ShadowMap:
    """Depth as the sun sees it, of a square of `side_m` around a middle that moves in steps of `step_m`."""

    def __init__(self, root: p3d.NodePath, name: str, mask: int, pixels: int, side_m: float, step_m: float) -> None:
        self.step_m = step_m
        self.drawn: Hashable = None
        self.texture = engine.depth_texture(name)
        self.texture.setMinfilter(p3d.SamplerState.FTShadow)
        self.texture.setMagfilter(p3d.SamplerState.FTShadow)
        self.buffer = engine.buffer(name, pixels, pixels)
        self.buffer.setSort(-10)
        self.buffer.addRenderTexture(self.texture, p3d.GraphicsOutput.RTMBindOrCopy, p3d.GraphicsOutput.RTPDepth)
        lens = p3d.OrthographicLens()
        lens.setFilmSize(side_m, side_m)
        lens.setNearFar(NEAR_M, FAR_M)
        node = p3d.Camera(name, lens)
        node.setCameraMask(p3d.BitMask32.bit(mask))
        use_depth_programs(node)
        self.camera, self.root = root.attachNewNode(node), root
        self.buffer.makeDisplayRegion().setCamera(self.camera)

    def rest(self) -> None:
        """No shadows are wanted; the map is drawn once all the same, so that it exists."""
        self.buffer.setActive(self.drawn is None)
        self.drawn = ()

    def aim(self, middle_3: np.ndarray, sun_3: np.ndarray, contents: Hashable = None) -> p3d.LMatrix4f:
        """Look at the middle from the sun; the map is drawn in this frame if it or `contents` changed.

        Returns:
            Clip coordinates in the map from world coordinates.
        """
        target = np.round(middle_3 / self.step_m) * self.step_m
        wanted = (tuple(target.tolist()), contents)
        self.buffer.setActive(wanted != self.drawn)
        self.drawn = wanted
        self.camera.setPos(*(target + sun_3 * AWAY_M))
        self.camera.lookAt(p3d.Point3(*target))
        from_world = self.root.getTransform(self.camera).getMat()
        return p3d.LMatrix4f(from_world * self.camera.node().getLens().getProjectionMat())
