"""Writes a new package with a scheme, from the templates in `skeleton/`."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template

from faultline.experiments.config.errors import UserError
from faultline.platforms.files import write_file
from faultline.strategies.plugins.registry import all_strategies

_TEMPLATES = "faultline.experiments.plugins.skeleton"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def write_scheme_package(name: str, folder: Path) -> list[Path]:
    """Write a package with a working scheme and its tests, for its author to change.

    Parameters
    ----------
    name : str
        Name of the scheme in scenarios.
    folder : Path
        Folder of the package; new or empty.

    Returns
    -------
    list of Path
        The written files.

    Raises
    ------
    UserError
        If the name is invalid or taken, or the folder is not empty.
    """
    if not _NAME.fullmatch(name):
        raise UserError(f"{name}: use small letters, digits and hyphens, such as my-scheme")
    if name in all_strategies():
        raise UserError(f"{name}: a scheme has this name already; choose another")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: exists already; name a new folder with -o DIR")
    snake = name.replace("-", "_")
    module, class_name = f"faultline_{snake}", snake.title().replace("_", "")
    places = {
        "pyproject.toml": "pyproject.toml.txt",
        "README.md": "readme.md.txt",
        f"{module}/__init__.py": "scheme.py.txt",
        f"tests/test_{snake}.py": "test.py.txt",
    }
    written = []
    for place, template in places.items():
        text = files(_TEMPLATES).joinpath(template).read_text(encoding="utf-8")
        filled = Template(text).substitute(name=name, module=module, class_name=class_name)
        path = folder / place
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, filled)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}; choose another -o DIR") from error
        written.append(path)
    return written
