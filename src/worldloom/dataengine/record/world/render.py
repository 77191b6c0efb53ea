"""Draws a scene in a state from a view: pictures with four samples a pixel, depth with one at the pixel's centre."""

from __future__ import annotations

import numpy as np
import panda3d.core as p3d

from worldloom.dataengine.record.pinhole import CameraModel
from worldloom.dataengine.record.world import engine, shaders
from worldloom.dataengine.record.world.depth import metres_of_depth
from worldloom.dataengine.record.world.figure import FIGURE_STREAM, PERSON_STREAM, Figure
from worldloom.dataengine.record.world.lights import falling, light_values, nearest_lamps, sun_direction
from worldloom.dataengine.record.world.mesh import Mesh
from worldloom.dataengine.record.world.nodes import LEAF, LOOK, height_texture, mesh_node, program, texture_of
from worldloom.dataengine.record.world.play import View
from worldloom.dataengine.record.world.scene import Prop, Scene, State
from worldloom.dataengine.record.world.sun import ShadowMap, use_depth_programs
from worldloom.dataengine.record.world.textures import make_textures

NEAR_M, FAR_M = 0.05, 300.0
SAMPLES = 4
CELL_M = 14.0
TEXTURE_STREAM = 12
PICTURE, STILL_SHADOW, MOVING_SHADOW, DEPTH = range(4)      # bits of what each camera sees
DROPS = 1400
COIN_DEG_PER_S = 120.0


class Renderer:
    """Pictures of one scene. Close it when done: the engine draws every open one each time."""

    def __init__(self, scene: Scene, camera: CameraModel, azimuth_deg: float, daylight: float,
                 has_figure: bool = False, people: int = 0, variant: int = 0) -> None:
        self.scene, self.camera_model = scene, camera
        self.sun_3 = sun_direction(azimuth_deg, daylight)
        look = [variant] if variant else []
        pictures = make_textures(np.random.default_rng([scene.seed, TEXTURE_STREAM, *look]))
        self.textures = {name: texture_of(name, picture) for name, picture in pictures.items()}
        self.root = p3d.NodePath("root")
        self.root.setAntialias(p3d.AntialiasAttrib.MMultisample)
        self._open_buffers()
        self._make_uniforms()
        self._build_still()
        self.props: list[p3d.NodePath] = []
        for prop in scene.props:
            self.add_prop(prop)
        self.doors = [self._moving(mesh_node("door", door.mesh, self.textures)) for door in scene.doors]
        self.figure = self._figure([scene.seed, FIGURE_STREAM, *look]) if has_figure else None
        self.people = [self._figure([scene.seed, PERSON_STREAM, i, *look]) for i in range(people)]
        engine.engine().renderFrame()       # the first one lacks textures that are still on their way to the driver
        self.still_map.drawn = self.moving_map.drawn = None

    def _open_buffers(self) -> None:
        model = self.camera_model
        lens = p3d.PerspectiveLens()
        lens.setFilmSize(model.width, model.height)
        lens.setFocalLength(model.fx)
        lens.setNearFar(NEAR_M, FAR_M)
        self.camera = self.root.attachNewNode(p3d.Camera("picture", lens))
        self.camera.node().setCameraMask(p3d.BitMask32.bit(PICTURE))
        self.buffer = engine.buffer("picture", model.width, model.height, SAMPLES)
        self.picture = p3d.Texture("picture")
        self.buffer.addRenderTexture(self.picture, p3d.GraphicsOutput.RTMCopyRam, p3d.GraphicsOutput.RTPColor)
        self.buffer.makeDisplayRegion().setCamera(self.camera)
        self.depth_camera = self.camera.attachNewNode(p3d.Camera("depth", lens))
        self.depth_camera.node().setCameraMask(p3d.BitMask32.bit(DEPTH))
        use_depth_programs(self.depth_camera.node())
        self.depth_buffer = engine.buffer("depth", model.width, model.height)
        self.depth_picture = engine.depth_texture("depth")
        self.depth_buffer.addRenderTexture(self.depth_picture, p3d.GraphicsOutput.RTMCopyRam,
                                           p3d.GraphicsOutput.RTPDepth)
        self.depth_buffer.makeDisplayRegion().setCamera(self.depth_camera)

    def _make_uniforms(self) -> None:
        self.uniforms = {name: p3d.PTA_LVecBase4f.emptyArray(count) for name, count in
                         (("light", shaders.LIGHTS), ("lamp_place", shaders.LAMPS), ("lamp_colour", shaders.LAMPS),
                          ("fall", 2))}
        self.sun_matrices = p3d.PTA_LMatrix4f.emptyArray(2)
        self.still_map = ShadowMap(self.root, "still_shadow", STILL_SHADOW, 1024, 72.0, 16.0)
        self.moving_map = ShadowMap(self.root, "moving_shadow", MOVING_SHADOW, 512, 28.0, 2.0)
        for name, values in self.uniforms.items():
            self.root.setShaderInput(name, values)
        self.root.setShaderInput("roof", height_texture("roof", self.scene.roof_heights()))
        self.root.setShaderInput("sun", self.sun_matrices)
        self.root.setShaderInput("still_shadow", self.still_map.texture)
        self.root.setShaderInput("moving_shadow", self.moving_map.texture)

    def _build_still(self) -> None:
        self.still = mesh_node("still", self.scene.mesh, self.textures, CELL_M)
        self.still.reparentTo(self.root)
        self.still.hide(p3d.BitMask32.bit(MOVING_SHADOW))
        _shade(self.still)
        self.moving = self.root.attachNewNode("moving")
        self.moving.hide(p3d.BitMask32.bit(STILL_SHADOW))
        self.sky, self.fall = _sky(self.textures), _fall(self.textures)
        for node in (self.sky, self.fall):
            node.reparentTo(self.root)
            for bit in (STILL_SHADOW, MOVING_SHADOW, DEPTH):
                node.hide(p3d.BitMask32.bit(bit))

    def _moving(self, node: p3d.NodePath) -> p3d.NodePath:
        node.reparentTo(self.moving)
        _shade(node)
        return node

    def _figure(self, seeds: list[int]) -> Figure:
        figure = Figure(self.moving, self.textures, seeds)
        _shade(figure.node)
        return figure

    def add_prop(self, prop: Prop) -> None:
        self.props.append(self._moving(mesh_node(prop.kind, prop.mesh, self.textures)))

    def draw(self, state: State, view: View, depth: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
        """The picture (H, W, 3) uint8, and where asked the planar depth (H, W) in metres, infinite in the sky."""
        self.camera.setPos(*map(float, view.position_3))
        self.camera.setHpr(-view.yaw_deg, view.pitch_deg, 0)
        self.sky.setPos(*map(float, view.position_3))
        self._place(state, view)
        self._light(state, view)
        self.depth_buffer.setActive(depth)
        engine.engine().renderFrame()
        return self._picture(), self._depth() if depth else None

    def _place(self, state: State, view: View) -> None:
        for i, (node, prop) in enumerate(zip(self.props, self.scene.props, strict=True)):
            if i < len(state.present) and state.present[i]:
                node.show()
                node.setPos(*map(float, state.positions[i]))
                if prop.kind == "coin":
                    node.setH(view.time_s * COIN_DEG_PER_S)
            else:
                node.hide()
        for node, door, deg in zip(self.doors, self.scene.doors, state.door_deg, strict=True):
            node.setPos(*door.hinge_2, 0)
            node.setH(90 * door.axis + deg)
        if self.figure and view.figure:
            self.figure.place(view.figure)
        for person, pose in zip(self.people, view.people, strict=True):
            person.place(pose)

    def _light(self, state: State, view: View) -> None:
        now, eye = state.environment, view.position_3
        places, colours = nearest_lamps(self.scene, now, eye)
        self._set("light", light_values(self.scene, now, eye, self.sun_3, view.time_s))
        self._set("lamp_place", places)
        self._set("lamp_colour", colours)
        drops = None if self.scene.is_indoor else falling(now, view.time_s)
        if drops is None:
            self.fall.hide()
        else:
            self.fall.show()
            self._set("fall", drops)
        self._cast(state, view)

    def _cast(self, state: State, view: View) -> None:
        """Aim the sun's shadows; indoors there are none. Coins turn without a new map."""
        if self.scene.is_indoor:
            self.still_map.rest()
            self.moving_map.rest()
            return
        self.sun_matrices.setElement(0, self.still_map.aim(view.middle_3, self.sun_3))
        contents = (tuple(state.present), tuple(float(at[2]) for at in state.positions), tuple(state.door_deg),
                    view.figure and view.figure.key, tuple(pose.key for pose in view.people))
        self.sun_matrices.setElement(1, self.moving_map.aim(view.middle_3, self.sun_3, contents))

    def _set(self, name: str, rows: np.ndarray) -> None:
        for i, row in enumerate(rows.tolist()):
            self.uniforms[name].setElement(i, p3d.LVecBase4f(*row))

    def _picture(self) -> np.ndarray:
        shape = (self.camera_model.height, self.camera_model.width, 4)
        bgra_HWC = np.frombuffer(self.picture.getRamImage(), np.uint8).reshape(shape)
        return np.ascontiguousarray(bgra_HWC[::-1, :, 2::-1])

    def _depth(self) -> np.ndarray:
        shape = (self.camera_model.height, self.camera_model.width)
        stored_HW = np.frombuffer(self.depth_picture.getRamImage(), np.float32).reshape(shape)[::-1]
        return metres_of_depth(stored_HW, NEAR_M, FAR_M)

    def close(self) -> None:
        for buffer in (self.buffer, self.depth_buffer, self.still_map.buffer, self.moving_map.buffer):
            engine.engine().removeWindow(buffer)
        self.root.removeNode()


def _shade(node: p3d.NodePath) -> None:
    """The program of each child by its look; leaves cover a part of a pixel's samples."""
    node.setShader(program(shaders.SURFACE_VERTEX, shaders.SOLID_FRAGMENT))
    for leaf in node.findAllMatches(f"**/={LOOK}={LEAF}"):
        leaf.setShader(program(shaders.SURFACE_VERTEX, shaders.LEAF_FRAGMENT))
        leaf.setTransparency(p3d.TransparencyAttrib.MMultisample)


def _sky(textures: dict[str, p3d.Texture]) -> p3d.NodePath:
    """A ball around the camera, drawn after all that is solid so that only the open sky is shaded."""
    mesh = Mesh()
    mesh.ball("cloud", (0, 0, 0), 200, sides=24)
    node = mesh_node("sky", mesh, textures)
    for child in node.getChildren():
        child.setTwoSided(True)
    node.setDepthWrite(False)
    node.setBin("fixed", 0)
    node.setShader(program(shaders.SKY_VERTEX, shaders.SKY_FRAGMENT))
    return node


def _fall(textures: dict[str, p3d.Texture]) -> p3d.NodePath:
    """Quads all over a box that moves with the eye; the program lets them fall."""
    at = np.repeat(np.random.default_rng(6).random((DROPS, 3)), 6, axis=0)
    corner = np.tile([[0.0, 0], [1, 0], [1, 1], [0, 0], [1, 1], [0, 1]], (DROPS, 1))
    mesh = Mesh()
    mesh.add("white", at, np.zeros_like(at), corner)
    node = mesh_node("fall", mesh, textures)
    for child in node.getChildren():
        child.setTwoSided(True)
    node.setShader(program(shaders.FALL_VERTEX, shaders.FALL_FRAGMENT))
    node.setTransparency(p3d.TransparencyAttrib.MAlpha)
    node.setDepthWrite(False)
    node.setBin("fixed", 1)
    node.node().setBounds(p3d.OmniBoundingVolume())
    node.node().setFinal(True)
    return node
