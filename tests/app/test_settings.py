"""The settings file: read, kept, refused and written."""

import tomllib

import pytest

from app.errors import UserError
from app.settings import OPTIONS, Settings


@pytest.fixture
def path(tmp_path):
    return tmp_path / "settings.toml"


def test_defaults_without_a_file(path):
    settings = Settings(path)
    assert settings.get("model.context") == 0
    assert not settings.notices
    assert not path.exists()


def test_a_change_is_saved_and_told(path):
    settings, told = Settings(path), []
    take_off = settings.on_change(lambda name, value: told.append((name, value)))
    settings.set("window.theme", "dark")
    settings.set("window.theme", "dark")
    take_off()
    settings.set("sampling.temperature", 1)
    assert told == [("window.theme", "dark")]
    again = Settings(path)
    assert again.text("window.theme") == "dark"
    assert again.number("sampling.temperature") == 1.0
    assert [name.name for name in path.parent.iterdir()] == ["settings.toml"]


@pytest.mark.parametrize(
    "value", ['a "quoted" \\ path', "tab\tline\nend\x7f\x00", "ü 漢字 🙂", "'", '"""', "[x]\n#"]
)
def test_any_text_comes_back(path, value):
    Settings(path).set("folder", value)
    assert Settings(path).get("folder") == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model.context", -1),
        ("model.context", "8192"),
        ("model.context", True),
        ("model.context", 512.0),
        ("sampling.temperature", float("nan")),
        ("sampling.temperature", float("inf")),
        ("window.theme", "pink"),
        ("folder", "\ud800"),
    ],
)
def test_what_does_not_fit_is_refused(path, name, value):
    settings = Settings(path)
    with pytest.raises(UserError, match=name.replace(".", r"\.")):
        settings.set(name, value)
    assert not path.exists()


def test_a_default_may_be_chosen_on_purpose(path):
    settings = Settings(path)
    assert not settings.is_set("sampling.temperature")
    settings.set("sampling.temperature", 0.2)
    assert Settings(path).is_set("sampling.temperature")


def test_a_bad_value_in_the_file_is_told_kept_and_not_used(path):
    path.write_text("[model]\ncontext = -3\nthreads = 2\n")
    settings = Settings(path)
    assert settings.get("model.context") == 0
    assert settings.get("model.threads") == 2
    assert len(settings.notices) == 1 and "model.context" in settings.notices[0]
    settings.set("window.theme", "light")
    assert tomllib.loads(path.read_text())["model"] == {"context": -3, "threads": 2}
    settings.set("model.context", 4_096)
    assert tomllib.loads(path.read_text())["model"] == {"context": 4_096, "threads": 2}


def test_unknown_keys_are_kept_and_told(path):
    path.write_text('hello = "x"\nwhen = 2020-01-02T03:04:05\n[plugin."odd key"]\nlist = [1, {a = 2.5}]\n')
    settings = Settings(path)
    assert len(settings.notices) == 3
    settings.set("window.theme", "light")
    kept = tomllib.loads(path.read_text())
    assert kept["hello"] == "x"
    assert kept["when"].year == 2020
    assert kept["plugin"]["odd key"]["list"] == [1, {"a": 2.5}]


def test_a_scalar_in_the_place_of_a_table_gives_way(path):
    path.write_text("window = 5\n")
    Settings(path).set("window.theme", "light")
    assert Settings(path).get("window.theme") == "light"


@pytest.mark.parametrize("broken", [b"model = [", b"\xff\xfe\x00", b"a = 1\na = 2"])
def test_a_broken_file_is_left_alone_until_the_first_save(path, broken):
    path.write_bytes(broken)
    settings = Settings(path)
    assert len(settings.notices) == 1
    assert path.read_bytes() == broken
    settings.set("window.theme", "light")
    aside = [file for file in path.parent.iterdir() if "broken" in file.name]
    assert [file.read_bytes() for file in aside] == [broken]
    assert Settings(path).get("window.theme") == "light"


def test_a_failed_save_changes_nothing(path):
    settings = Settings(path / "missing" / "settings.toml")
    with pytest.raises(UserError, match="can't be saved"):
        settings.set("window.theme", "light")
    assert settings.get("window.theme") == "system"


def test_every_option_accepts_its_default_and_says_what_it_does():
    assert len({option.name for option in OPTIONS}) == len(OPTIONS)
    for option in OPTIONS:
        assert option.check(option.default) == option.default
        assert option.text.endswith(".")
