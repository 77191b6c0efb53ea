"""The page as a Jinja template. Colours are custom properties, so the dark scheme changes nothing else."""

STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --card: #f4f6f8; --ink: #1f2328; --soft: #59636e; --line: #d5dae0;
  --est: #e8871e; --true: #2f81c7; --good: #1a7f37; --bad: #c93c37; }
@media (prefers-color-scheme: dark) { :root { --page: #171b21; --card: #20262e; --ink: #e6edf3; --soft: #9aa5b1;
  --line: #343b44; --est: #f09b3c; --true: #5aa5e4; --good: #4ac26b; --bad: #f47067; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1200px; padding: 1.5rem 1.25rem 4rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .5rem; padding-top: .7rem; border-top: 1px solid var(--line); }
h3 { font-size: .95rem; margin: 1.3rem 0 .4rem; overflow-wrap: anywhere; }
p { margin: .4rem 0; max-width: 75ch; } .soft { color: var(--soft); } .small { font-size: .85rem; }
nav { display: flex; flex-wrap: wrap; gap: .2rem .9rem; margin: .5rem 0 1.1rem; font-size: .9rem; }
nav a { color: var(--true); text-decoration: none; } nav a:hover { text-decoration: underline; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: .75rem; margin-bottom: 1rem; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .7rem .9rem; }
.tile b { display: block; font-size: 1.55rem; line-height: 1.25; font-weight: 650; }
.tile span { color: var(--soft); font-size: .85rem; display: block; overflow-wrap: anywhere; }
.tile .name { text-transform: uppercase; letter-spacing: .05em; font-size: .72rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; min-width: 320px; }
th, td { text-align: left; padding: .28rem .8rem .28rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.wide { min-width: 16rem; overflow-wrap: anywhere; } td.key { overflow-wrap: anywhere; min-width: 8rem; }
.strip { display: grid; grid-template-columns: repeat(4, 1fr); gap: .4rem; }
.strip figure, .shots figure { margin: 0; } .strip img, .shots img { width: 100%; display: block; border-radius: 5px; }
figcaption { font-size: .78rem; color: var(--soft); overflow-wrap: anywhere; }
.shots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: .8rem; }
.shots img { image-rendering: pixelated; background: var(--card); }
.chart { max-width: 100%; height: auto; display: block; } .row { display: flex; flex-wrap: wrap; gap: 1rem 2rem; }
.paths { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: .8rem; }
.pair { display: grid; grid-template-columns: minmax(0, 5fr) minmax(0, 8fr); gap: 1rem; margin: 1rem 0; }
.bars + .scroll { margin-top: .8rem; }
.row > * { min-width: 0; max-width: 100%; }
.bars { display: grid; grid-template-columns: minmax(7rem, max-content) minmax(4rem, 1fr) max-content;
  gap: .3rem .8rem; align-items: center; max-width: 760px; font-size: .88rem; }
.bars > span { overflow-wrap: anywhere; max-width: 18rem; }
.bar { height: .85rem; background: var(--card); border-radius: 3px; overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--est); border-radius: 3px; }
.bar + .bar { margin-top: 2px; } .bar.asked i { background: var(--true); }
.heat { background: color-mix(in srgb, var(--est) calc(var(--share) * 70%), transparent); padding-left: .5rem;
  padding-right: .5rem; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .6rem .8rem;
  white-space: pre-wrap; overflow-wrap: anywhere; font-size: .82rem; margin: .4rem 0; }
.captions { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr)); gap: .8rem; }
.captions h3 { margin-top: 0; } .events { margin: .4rem 0 0; padding: 0; list-style: none; font-size: .88rem; }
.events li { display: grid; grid-template-columns: 6.6rem 1fr; gap: .5rem; }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 2px; background: var(--est); }
.swatch.asked { background: var(--true); }
@media (max-width: 700px) { .paths { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .pair { grid-template-columns: minmax(0, 1fr); } .strip { grid-template-columns: repeat(2, 1fr); }
  body { padding: 1rem .8rem 3rem; }
  .bars { grid-template-columns: minmax(4rem, 6.5rem) minmax(3rem, 1fr) max-content; } }
"""

MACROS = """
{% macro left_out_table(rows, counts, word) %}
{% if rows %}
<h3>{{ word }}: {{ counts | sum(attribute="n") }}</h3>
<p class="small soft">{% for c in counts %}{{ c.stage }} {{ c.reason }} {{ c.n }}{% if not loop.last %}, {% endif %}
{% endfor %}{% if counts | sum(attribute="n") > rows | length %}; the first {{ rows | length }} are listed
{% endif %}</p>
<div class="scroll"><table><tr><th>stage</th><th>row</th><th>reason</th><th>what was found</th></tr>
{% for r in rows %}
<tr><td>{{ r.stage }}</td><td class="key">{{ r.row_key }}</td><td>{{ r.reason }}</td>
<td class="wide">{{ r.detail }}</td></tr>
{% endfor %}</table></div>
{% else %}<p>There are no {{ word | lower }}.</p>{% endif %}
{% endmacro %}
"""

BODY = """
<h1>{{ title }}</h1>
<nav><a href="#summary">Summary</a><a href="#actions">Actions on film</a><a href="#paths">Camera paths</a>
<a href="#truth">Against truth</a><a href="#selection">Selection</a><a href="#captions">Captions</a>
<a href="#mix">Mix</a><a href="#training">Training</a><a href="#timings">Timings and queries</a></nav>

<section id="summary">
<div class="tiles">{% for name, value, note in tiles %}
<div class="tile"><span class="name">{{ name }}</span><b>{{ value }}</b><span>{{ note }}</span></div>
{% endfor %}</div>
{% if accounts %}
<h3>Row accounts</h3>
<p class="small soft">For every stage, rows in = done + dropped + failed.</p>
<div class="scroll"><table><tr><th>stage</th><th class="n">parts</th><th class="n">rows in</th><th class="n">done</th>
<th class="n">dropped</th><th class="n">failed</th><th class="n">rows out</th><th>account</th></tr>
{% for a in accounts %}
<tr><td>{{ a.stage }}</td><td class="n">{{ a.parts }}</td><td class="n">{{ "{:,}".format(a.rows_in) }}</td>
<td class="n">{{ "{:,}".format(a.done) }}</td><td class="n">{{ "{:,}".format(a.dropped) }}</td>
<td class="n">{{ "{:,}".format(a.failed) }}</td><td class="n">{{ "{:,}".format(a.rows_out) }}</td>
<td>{% if a.closed %}<span class="good">closed</span>{% else %}<span class="bad">open</span>{% endif %}</td></tr>
{% endfor %}</table></div>
{% else %}<p>No run has been recorded in this corpus.</p>{% endif %}
</section>

<section id="actions"><h2>Actions on film</h2>
{% if strips %}
<p class="small soft">Evenly spaced frames of kept clips, from each source in turn, with the action that led into the
frame: lit keys are the movement found in the pictures (J is a jump), a grey ? is uncertain. The arrow leans by ten
times the turn; below it yaw (right +) and pitch (up +) in degrees a frame.</p>
{% for s in strips %}
<h3>{{ s.title }} <span class="soft small">{{ s.clip_id }}</span></h3>
{% if s.frames %}<div class="strip">{% for name, data in s.frames %}
<figure><img src="{{ data | jpeg }}" alt="{{ name }} with its action"><figcaption>{{ name }}</figcaption></figure>
{% endfor %}</div>{% else %}<p>Its pictures could not be read: {{ s.problem or "no frames" }}.</p>{% endif %}
{% endfor %}
{% else %}<p>There are no clips with actions to show.</p>{% endif %}
</section>

<section id="paths"><h2>Camera paths from above</h2>
{% if paths %}
<p class="small soft">Each path starts at its dot, heading up the page, and is scaled to its own extent: an estimated
path has no scale of its own. True paths are drawn where they are known.</p>
<div class="paths">{% for c in paths %}<div>{{ c | chart }}</div>{% endfor %}</div>
{% else %}<p>There are no camera paths that move.</p>{% endif %}
</section>

<section id="truth"><h2>Estimated against true actions</h2>
{% if yaw %}
<div class="tiles">
<div class="tile"><span class="name">correlation</span><b>{{ yaw.correlation | figure }}</b>
<span>{{ "{:,}".format(yaw.moving) }} frames moving at least {{ yaw.moving_deg }}&deg;</span></div>
<div class="tile"><span class="name">same sign</span><b>{{ yaw.sign_agreement | figure(".1%") }}</b>
<span>{{ "{:,}".format(yaw.turning) }} frames turning faster than {{ "%g" | format(yaw.turning_deg) }}&deg;</span></div>
<div class="tile"><span class="name">median error</span><b>{{ yaw.median_error_deg | figure }}&deg;</b>
<span>all {{ "{:,}".format(yaw.frames) }} of {{ "{:,}".format(yaw.asked) }} frames that have an estimate</span></div>
<div class="tile"><span class="name">compared</span><b>{{ yaw.clips }}</b><span>clips with estimated poses and truth;
{{ yaw.given }} left out because their poses were given</span></div></div>
{% set t = yaw.trusted %}
<p>On the {{ "{:,}".format(t.frames) }} frames whose own standard error is at most
{{ "%g" | format(yaw.trusted_deg) }}&deg;: correlation {{ t.correlation | figure }},
same sign {{ t.sign_agreement | figure(".1%") }},
median error {{ t.median_error_deg | figure }}&deg;.</p>
<div class="pair">{% for c in yaw.charts %}<div>{{ c | chart }}</div>{% endfor %}</div>
<div class="row">{% for m in yaw.confusions %}
<div><h3>{{ m.axis | capitalize }} movement: true down, estimated across</h3>
<div class="scroll"><table><tr><th></th>{% for name in m.names %}<th class="n">{{ name }}</th>{% endfor %}</tr>
{% for name, total, cells in m.rows %}<tr><th>{{ name }}</th>{% for n, share in cells %}
<td class="n heat" style="--share: {{ "%.3f" | format(share) }}">{{ "{:,}".format(n) }}</td>{% endfor %}</tr>
{% endfor %}</table></div>
<p class="small soft">{% if m.right is not none %}{{ "{:.1%}".format(m.right) }} right of {{ "{:,}".format(m.decided) }}
frames decided in both.{% else %}No frame was decided in both.{% endif %}</p></div>
{% endfor %}</div>
{% else %}<p>There is no truth for these videos to compare estimated actions with.</p>{% endif %}
</section>

<section id="selection"><h2>Selection</h2>
{% for s in selections %}
<h3>{{ s.name }}: {{ s.kept }} of {{ s.n }} clips kept</h3>
<div class="bars"><span>kept</span><div><div class="bar asked">
<i style="width: {{ "%.2f" | format(100 * s.kept / s.n) }}%">
</i></div></div><span class="n">{{ s.kept }}</span>
{% for r in s.reasons %}<span>{{ r.reason }}</span><div><div class="bar">
<i style="width: {{ "%.2f" | format(100 * r.n / s.n) }}%"></i></div></div><span class="n">{{ r.n }}</span>
{% endfor %}</div>
{% if s.reasons %}<p class="small soft">A clip that fails several rules counts under each.</p>{% endif %}
{% else %}<p>No selection has been made.</p>{% endfor %}
{{ left_out_table(left_out.drops, left_out.drop_counts, "Drops") }}
{{ left_out_table(left_out.failures, left_out.failure_counts, "Failures") }}
</section>

<section id="captions"><h2>Captions</h2>
{% if captions %}
<div class="captions">{% for c in captions %}
<div class="card"><h3>{{ c.title }}</h3><p>{{ c.scene }}</p>
{% if c.character %}<p><span class="soft">Character:</span> {{ c.character }}</p>{% endif %}
{% if c.ui %}<p><span class="soft">Overlays:</span> {{ c.ui }}</p>{% endif %}
<ul class="events">{% for e in (c.events or [])[:10] %}
<li><span class="soft">{{ "%.2f" | format(e.start_s) }}–{{ "%.2f" | format(e.end_s) }} s</span>
<span>{% if e.text is none %}<span class="soft">nothing happens</span>{% else %}{{ e.text }}
{% if e.kind %}<span class="soft small">{{ e.kind }}</span>{% endif %}{% endif %}</span></li>{% endfor %}</ul>
{% if (c.events or []) | length > 10 %}<p class="small soft">and {{ c.events | length - 10 }} more</p>{% endif %}
<p class="small soft">by {{ c.captioner }}, from {{ c.basis }}</p></div>
{% endfor %}</div>
{% else %}<p>There are no captions.</p>{% endif %}
</section>

<section id="mix"><h2>Mix: asked and realised</h2>
{% for m in mix.mixes %}
<h3>{{ m.name }} <span class="soft small">{{ m.digest }}</span></h3>
<p class="small soft"><span class="swatch asked"></span> asked <span class="swatch"></span> realised, as shares of all
{{ m.unit }}</p>
<div class="bars">{% for r in m.rows %}<span>{{ r.component }}</span>
<div><div class="bar asked"><i style="width: {{ "%.2f" | format(100 * r.asked_share) }}%"></i></div>
<div class="bar"><i style="width: {{ "%.2f" | format(100 * r.real_share) }}%"></i></div></div>
<span class="n">{{ "{:.1%}".format(r.asked_share) }} → {{ "{:.1%}".format(r.real_share) }}</span>{% endfor %}</div>
<div class="scroll"><table><tr><th>component</th><th class="n">weight</th><th class="n">available</th>
<th class="n">allotted</th><th class="n">realised</th><th class="n">clips</th><th class="n">repeats</th>
{% if m.packed %}<th class="n">clips in tars</th><th class="n">frames in tars</th><th>tars</th>{% endif %}</tr>
{% for r in m.rows %}<tr><td>{{ r.component }}</td><td class="n">{{ "%g" | format(r.weight) }}</td>
<td class="n">{{ "{:,}".format(r.available) }}</td><td class="n">{{ "{:,}".format(r.allotted) }}</td>
<td class="n">{{ "{:,}".format(r.realised) }}</td><td class="n">{{ "{:,}".format(r.clips) }}</td>
<td class="n">{{ "%.2f" | format(r.repeats) }}</td>
{% if m.packed %}<td class="n">{{ "{:,}".format(r.counted_clips) }}</td>
<td class="n">{{ "{:,}".format(r.counted_frames) }}</td>
<td>{% if r.agrees %}<span class="good">agree</span>{% else %}<span class="bad">differ</span>{% endif %}</td>
{% endif %}</tr>
{% endfor %}</table></div>
{% if m.packed %}<p>Counted again from {{ mix.count.tars }} tar{{ "" if mix.count.tars == 1 else "s" }}, the shards
{% if m.agrees %}<span class="good">agree</span>{% else %}<span class="bad">do not agree</span>{% endif %}{{ " " }}
with this mix.
{%- if m.extra %} The mix lacks components that the tars hold: {{ m.extra | join(", ") }}.{% endif %}</p>{% endif %}
{% else %}<p>No mix has been compiled.</p>{% endfor %}
{% if mix.count is none %}<p>There are no shards to count.</p>
{% elif not mix.matched and mix.mixes %}<p>The shards cannot be told to be of one of these mixes.</p>{% endif %}
{% if mix.count %}{% for line in mix.count.problems[:5] %}<p class="bad small">{{ line }}</p>{% endfor %}{% endif %}
</section>

<section id="training"><h2>Training</h2>
{% if training %}
{% if training.chart %}{{ training.chart | chart }}
{% else %}<p>No loss has been recorded.</p>{% endif %}
{% if training.checks %}
<h3>What the model was held to</h3>
<div class="scroll"><table><tr><th>figure</th><th class="n">found</th><th>bound</th><th></th></tr>
{% for c in training.checks %}<tr><td>{{ c.name }}</td><td class="n">{{ c.found }}</td><td>{{ c.bound }}</td>
<td>{% if c.passed is none %}<span class="soft">not measured</span>{% elif c.passed %}<span class="good">passed</span>
{% else %}<span class="bad">missed</span>{% endif %}</td></tr>{% endfor %}</table></div>
{% else %}<p>The model has not been evaluated.</p>{% endif %}
{% if training.pictures %}
<h3>Generated clips</h3>
<div class="shots">{% for name, data in training.pictures %}
<figure><img src="{{ data | png }}" alt="{{ name }}"><figcaption>{{ name }}</figcaption></figure>{% endfor %}</div>
{% else %}<p>No generated clips were drawn.</p>{% endif %}
{% if training.figures %}
<details><summary>All figures of the evaluation</summary>
<div class="scroll"><table><tr><th>figure</th><th>value</th></tr>
{% for name, value in training.figures %}<tr><td>{{ name }}</td><td class="wide">{{ value }}</td></tr>{% endfor %}
</table></div></details>{% endif %}
{% else %}<p>No model has been trained on this corpus.</p>{% endif %}
</section>

<section id="timings"><h2>Timings and queries</h2>
{% if timings %}
<div class="bars">{% for name, seconds, share in timings %}<span>{{ name }}</span><div><div class="bar">
<i style="width: {{ "%.2f" | format(100 * share) }}%"></i></div></div>
<span class="n">{{ "%.1f" | format(seconds) }} s</span>{% endfor %}
<span><b>total</b></span><div></div><span class="n"><b>{{ "%.1f" | format(total_s) }} s</b></span></div>
{% else %}<p>No timings were handed over.</p>{% endif %}
{% if queries %}
<h3>Ask the tables yourself</h3>
<p class="small soft">Paths are relative to this report.</p>
{% for q in queries %}
<p>{{ q.title | capitalize }}:</p><pre>worldloom sql "{{ q.sql }}" --corpus {{ corpus }}</pre>
{% if q.rows %}<div class="scroll"><table><tr>{% for name in q.rows[0] %}<th>{{ name }}</th>{% endfor %}</tr>
{% for row in q.rows %}<tr>{% for value in row.values() %}
<td>{{ value if value is not none else "–" }}</td>{% endfor %}</tr>
{% endfor %}</table></div>{% if q.more %}<p class="small soft">and {{ q.more }} more rows</p>{% endif %}
{% else %}<p class="small soft">It gives no rows here.</p>{% endif %}
{% endfor %}
{% else %}<p>There are no tables to query yet.</p>{% endif %}
</section>
"""

HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>"""

TEMPLATE = MACROS.lstrip() + HEAD + STYLE + "</style>\n</head>\n<body>" + BODY + "</body>\n</html>\n"
