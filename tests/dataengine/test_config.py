import pytest

from worldloom.dataengine.plan import Plan, load_plan, ordered_stages
from worldloom.schemas import ConfigError
from worldloom.schemas.config import load_config


def plan(tmp_path, text):
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    return path


def test_an_unknown_key_is_refused_with_its_line_and_the_nearest_name(tmp_path) -> None:
    path = plan(tmp_path, "sources:\n  - {name: a, kind: folder, path: x}\nvideos_per_prt: 3\n")
    wanted = r"plan.yaml:3: plan has no field 'videos_per_prt'; did you mean 'videos_per_part'"
    with pytest.raises(ConfigError, match=wanted):
        load_config(path, Plan)


def test_a_wrong_type_names_the_field_and_what_was_found(tmp_path) -> None:
    path = plan(tmp_path, "sources:\n  - {name: a, kind: folder, path: x}\nworkers: many\n")
    with pytest.raises(ConfigError, match=r"plan.yaml:3: workers: .*found 'many'"):
        load_config(path, Plan)


def test_a_file_that_is_not_yaml_is_one_line(tmp_path) -> None:
    with pytest.raises(ConfigError, match="not YAML") as error:
        load_config(plan(tmp_path, "a: [1\nb: }"), Plan)
    assert "\n" not in str(error.value)


def test_two_sources_of_one_name_are_refused(tmp_path) -> None:
    path = plan(tmp_path, "sources:\n  - {name: a, kind: folder, path: x}\n  - {name: a, kind: folder, path: y}\n")
    with pytest.raises(ConfigError, match="same name"):
        load_plan(path)


def test_an_unknown_stage_is_refused_with_the_known_ones(tmp_path) -> None:
    path = plan(tmp_path, "sources:\n  - {name: a, kind: folder, path: x}\nstages: [video, clipp]\n")
    with pytest.raises(ConfigError, match="no stage 'clipp'; stages: action,"):
        ordered_stages(load_plan(path))


def test_stages_are_ordered_by_what_they_read(tmp_path) -> None:
    path = plan(tmp_path, "sources:\n  - {name: a, kind: folder, path: x}\nstages: [action, camera, video, clip]\n")
    assert [stage.name for _, stage in ordered_stages(load_plan(path))] == ["video", "clip", "camera", "action"]


def test_a_stage_whose_input_nothing_writes_is_refused(tmp_path) -> None:
    path = plan(tmp_path, "sources:\n  - {name: a, kind: folder, path: x}\nstages: [video, action]\n")
    with pytest.raises(ConfigError, match="nothing writes what these stages read: action"):
        ordered_stages(load_plan(path))


def test_a_key_that_stands_twice_is_refused_with_its_line(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("workers: 1\nsources: []\nworkers: 2\n")
    with pytest.raises(ConfigError, match=r"p.yaml:3: 'workers' stands twice"):
        load_config(path, Plan)
