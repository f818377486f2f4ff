"""Who may look at the environment."""

import ast
from pathlib import Path

APP = Path(__file__).parents[2] / "app"


def readers(tree: ast.AST) -> set[str]:
    """The ways in which a module reaches for the environment or for Dynaconf."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr="environ" | "environb" | "getenv" as name):
                found.add(f"os.{name}")
            case ast.ImportFrom(module="os", names=names):
                found |= {f"os.{alias.name}" for alias in names if "env" in alias.name}
            case ast.Import(names=names):
                found |= {alias.name for alias in names if alias.name.partition(".")[0] == "dynaconf"}
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] == "dynaconf":
                found.add(module)
    return found


def test_only_the_settings_read_the_environment():
    """Outside app/settings nothing reads a variable or uses Dynaconf: what can be set is in the schema."""
    found = {
        str(path.relative_to(APP)): reached
        for path in sorted(APP.rglob("*.py"))
        if (reached := readers(ast.parse(path.read_text(encoding="utf-8"))))
    }

    assert found == {
        # The socket of systemd, which no setting can name.
        "commands/serve.py": {"os.environ"},
        "settings/layers.py": {"os.environ"},
        "settings/sources.py": {"dynaconf", "dynaconf.loaders"},
    }
