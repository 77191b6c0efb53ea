"""The licence that a dataset's card states: the front matter of its README.md, in SPDX's spelling where known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_SPDX = {name.lower(): name for name in (
    "MIT Apache-2.0 BSD-2-Clause BSD-3-Clause CC0-1.0 CC-BY-2.0 CC-BY-3.0 CC-BY-4.0 CC-BY-SA-3.0 CC-BY-SA-4.0 "
    "CC-BY-NC-2.0 CC-BY-NC-3.0 CC-BY-NC-4.0 CC-BY-ND-4.0 CC-BY-NC-ND-3.0 CC-BY-NC-ND-4.0 CC-BY-NC-SA-2.0 "
    "CC-BY-NC-SA-3.0 CC-BY-NC-SA-4.0 ODbL-1.0 ODC-By-1.0 PDDL-1.0 GPL-3.0 LGPL-3.0 AGPL-3.0 MPL-2.0 "
    "CDLA-Permissive-1.0 CDLA-Permissive-2.0 CDLA-Sharing-1.0 Unlicense WTFPL ISC Zlib").split()}
_HUB = {"odbl": "ODbL-1.0", "odc-by": "ODC-By-1.0", "pddl": "PDDL-1.0"}
_MOST_BYTES = 1 << 20


def card_licence(folder: Path) -> str | None:
    """The licence of the dataset in a folder; None where its card states none, or states it unknown."""
    facts = card_facts(folder / "README.md")
    named = facts.get("license", facts.get("licence"))
    if named == "other" and isinstance(facts.get("license_name"), str):
        named = facts["license_name"]
    names = [name for name in (named if isinstance(named, list) else [named]) if isinstance(name, str)]
    return ", ".join(spdx(name) for name in names if name.strip() and name != "unknown") or None


def spdx(name: str) -> str:
    """SPDX's spelling of a licence: "cc by 4.0" and "cc-by-4.0" are CC-BY-4.0; any other name as it is."""
    key = "-".join(name.strip().lower().replace("_", " ").split())
    return _SPDX.get(key) or _HUB.get(key) or name.strip()


def card_facts(path: Path) -> dict[str, Any]:
    """The YAML between the first two lines of --- of a card; empty where there is none that can be read."""
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        text = file.read(_MOST_BYTES).decode("utf-8", "replace").lstrip("\ufeff")
    opening, _, rest = text.partition("\n")
    front, closing, _ = ("\n" + rest).partition("\n---")
    if opening.strip() != "---" or not closing:
        return {}
    try:
        facts = yaml.safe_load(front)
    except yaml.YAMLError:
        return {}                               # a card is for people: one that is no YAML states nothing here
    return facts if isinstance(facts, dict) else {}
