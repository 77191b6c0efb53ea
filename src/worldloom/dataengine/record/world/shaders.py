"""The shading programs: sun with two shadow maps, sky light, lamps, fog, wet ground, sky with clouds, rain and snow.

`light` holds, by index: eye, sun direction, sun colour, sky colour, ground colour, fog colour, colour overhead (xyz
each), and (fog per metre, wetness, lamps, share of sun), (cloud drift x, y, cloud cover, 0).
"""

from worldloom.dataengine.record.world.scene import ROOF_REACH_M

LIGHTS = 9
_ROOF = f"""
uniform sampler2D roof;     // height of the roof over each place, rows along y
bool under_roof(vec3 at) {{ return at.z < textureLod(roof, at.xy / {2 * ROOF_REACH_M} + 0.5, 0.0).r - 0.02; }}
"""
LAMPS = 8

_HEAD = f"""#version 330
uniform vec4 light[{LIGHTS}];
#define LAMPS {LAMPS}
#define EYE light[0].xyz
#define SUN_DIRECTION light[1].xyz
#define SUN_COLOUR light[2].rgb
#define SKY_COLOUR light[3].rgb
#define GROUND_COLOUR light[4].rgb
#define FOG_COLOUR light[5].rgb
#define OVERHEAD_COLOUR light[6].rgb
#define FOG_PER_METRE light[7].x
#define WETNESS light[7].y
#define LAMP_LIGHT light[7].z
#define SUN_SHARE light[7].w
vec3 displayed(vec3 c) {{ return sqrt(c / (1.0 + 0.25 * c)); }}
"""

SURFACE_VERTEX = """#version 330
uniform mat4 p3d_ModelViewProjectionMatrix, p3d_ModelMatrix;
uniform mat4 sun[2];
in vec3 p3d_Vertex, p3d_Normal;
in vec2 p3d_MultiTexCoord0;
in vec4 tint;
out vec3 position, normal, on_still, on_moving;
out vec2 uv;
out vec4 colour;
void main() {
    gl_Position = p3d_ModelViewProjectionMatrix * vec4(p3d_Vertex, 1.0);
    position = (p3d_ModelMatrix * vec4(p3d_Vertex, 1.0)).xyz;
    normal = mat3(p3d_ModelMatrix) * p3d_Normal;
    uv = p3d_MultiTexCoord0;
    colour = tint;
    vec4 lifted = vec4(position + normalize(normal) * 0.06, 1.0);
    on_still = (sun[0] * lifted).xyz * 0.5 + 0.5;
    on_moving = (sun[1] * lifted).xyz * 0.5 + 0.5;
}
"""

_SURFACE = _ROOF + """
uniform sampler2D p3d_Texture0;
uniform sampler2DShadow still_shadow, moving_shadow;
uniform vec4 lamp_place[LAMPS], lamp_colour[LAMPS];
in vec3 position, normal, on_still, on_moving;
in vec2 uv;
in vec4 colour;
out vec4 result;
vec4 texel_at(vec2 at) {     // sharper than mipmaps on surfaces seen from the side, where they blur along the way
    vec2 across = dFdx(at), down = dFdy(at);
    float a = dot(across, across), b = dot(down, down);
    float sharper = clamp(sqrt(sqrt(min(a, b) / max(max(a, b), 1e-12))), 0.5, 1.0);
    return textureGrad(p3d_Texture0, at, across * sharper, down * sharper);
}
float sunlit(sampler2DShadow map, vec3 at) {
    if (any(lessThan(at, vec3(0.0))) || any(greaterThan(at, vec3(1.0)))) return 1.0;
    return texture(map, vec3(at.xy, at.z - 0.0006));
}
vec3 lamps(vec3 n) {
    vec3 sum = vec3(0.0);
    for (int i = 0; i < LAMPS; i++) {
        vec3 towards = lamp_place[i].xyz - position;
        float r = length(towards), q = r / lamp_place[i].w, fade = clamp(1.0 - q * q * q * q, 0.0, 1.0);
        sum += lamp_colour[i].rgb * fade * fade / (1.0 + 0.35 * r * r) * (max(dot(n, towards / r), 0.0) * 0.8 + 0.2);
    }
    return sum;
}
vec3 shaded(vec3 texel) {
    vec3 n = normalize(normal);
    if (!gl_FrontFacing) n = -n;
    vec3 albedo = texel * texel * colour.rgb;
    float wet = WETNESS > 0.0 && !under_roof(position) ? WETNESS * clamp(n.z, 0.0, 1.0) : 0.0;
    albedo *= 1.0 - 0.45 * wet;
    vec3 lit = mix(GROUND_COLOUR, SKY_COLOUR, n.z * 0.5 + 0.5);
    vec3 shine = vec3(0.0);
    if (SUN_SHARE > 0.0) {
        float towards = max(dot(n, SUN_DIRECTION), 0.0);
        float sun = towards > 0.0 ? SUN_SHARE * sunlit(still_shadow, on_still) * sunlit(moving_shadow, on_moving) : 0.0;
        lit += SUN_COLOUR * towards * sun;
        if (wet > 0.0) {
            float gloss = max(dot(n, normalize(normalize(EYE - position) + SUN_DIRECTION)), 0.0);
            shine = SUN_COLOUR * pow(gloss, 40.0) * sun * wet;
        }
    }
    if (LAMP_LIGHT > 0.001) lit += lamps(n);
    vec3 c = albedo * lit + shine + albedo * colour.a * (0.4 + LAMP_LIGHT * 2.2);
    return displayed(mix(FOG_COLOUR, c, exp(-length(EYE - position) * FOG_PER_METRE)));
}
"""

SOLID_FRAGMENT = _HEAD + _SURFACE + """
void main() { result = vec4(shaded(texel_at(uv).rgb), 1.0); }
"""

LEAF_FRAGMENT = _HEAD + _SURFACE + """
void main() {
    vec4 texel = texture(p3d_Texture0, uv);
    float cover = clamp((texel.a - 0.5) / max(fwidth(texel.a), 0.02) + 0.5, 0.0, 1.0);
    if (cover < 0.02) discard;
    result = vec4(shaded(texel.rgb), cover);
}
"""

SOLID_DEPTH_FRAGMENT = """#version 330
out vec4 result;
void main() { result = vec4(1.0); }
"""

LEAF_DEPTH_FRAGMENT = """#version 330
uniform sampler2D p3d_Texture0;
in vec2 uv;
out vec4 result;
void main() { if (texture(p3d_Texture0, uv).a < 0.5) discard; result = vec4(1.0); }
"""

SKY_VERTEX = """#version 330
uniform mat4 p3d_ModelViewProjectionMatrix;
in vec3 p3d_Vertex;
out vec3 towards;
void main() {
    towards = p3d_Vertex;
    gl_Position = p3d_ModelViewProjectionMatrix * vec4(p3d_Vertex, 1.0);
    gl_Position.z = gl_Position.w * 0.999999;
}
"""

SKY_FRAGMENT = _HEAD + """
uniform sampler2D p3d_Texture0;
in vec3 towards;
out vec4 result;
void main() {
    vec3 d = normalize(towards);
    float height = max(d.z, 0.0), cover = light[8].z;
    vec3 c = mix(FOG_COLOUR, OVERHEAD_COLOUR, sqrt(height));
    vec2 at = d.xy / (height + 0.12) * 0.09 + light[8].xy;
    float cloud = texture(p3d_Texture0, at).r * 0.6 + texture(p3d_Texture0, at * 2.7).r * 0.3
        + texture(p3d_Texture0, at * 7.0).r * 0.1;
    float share = smoothstep(0.62 - cover * 0.45, 0.8 - cover * 0.35, cloud) * smoothstep(0.02, 0.2, height);
    c = mix(c, (FOG_COLOUR * 0.5 + SUN_COLOUR * 0.28) * (1.15 - 0.6 * cover * cloud), share);
    c += SUN_COLOUR * pow(max(dot(d, SUN_DIRECTION), 0.0), 600.0) * (1.0 - share) * 2.0;
    result = vec4(displayed(c), 1.0);
}
"""

FALL_VERTEX = """#version 330
uniform mat4 p3d_ModelViewProjectionMatrix;
uniform vec4 light[9];
uniform vec4 fall[2];       // (time, metres a second, sideways sway, width), colour
in vec3 p3d_Vertex;
in vec2 p3d_MultiTexCoord0;
""" + _ROOF + """
void main() {
    vec3 size = vec3(12.0, 12.0, 9.0), at = p3d_Vertex * size, eye = light[0].xyz;
    at.z -= fall[0].x * fall[0].y;
    at.x += fall[0].z * sin(fall[0].x * 1.3 + p3d_Vertex.y * 40.0) * 0.4;
    at = mod(at - eye, size) - size / 2.0;
    float away = length(at);
    vec3 side = normalize(cross(at, vec3(0.0, 0.0, 1.0))) * smoothstep(0.8, 3.0, away) * (away < 0.9 ? 0.0 : 1.0);
    float length_m = fall[0].z > 0.5 ? fall[0].w : 0.5;
    if (under_roof(eye + at)) { side = vec3(0.0); length_m = 0.0; }
    vec3 corner = side * (p3d_MultiTexCoord0.x - 0.5) * fall[0].w + vec3(0.0, 0.0, p3d_MultiTexCoord0.y * length_m);
    gl_Position = p3d_ModelViewProjectionMatrix * vec4(eye + at + corner, 1.0);
}
"""

FALL_FRAGMENT = """#version 330
uniform vec4 fall[2];
out vec4 result;
void main() { result = fall[1]; }
"""
