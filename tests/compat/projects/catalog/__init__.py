"""The projects, by kind."""

from __future__ import annotations

from collections.abc import Sequence

from tests.compat.projects.catalog import compiled, databases, languages, node, python
from tests.compat.projects.project import Project

from holdfast.errors import InvalidArgument

PROJECTS: tuple[Project, ...] = (
    *python.PROJECTS,
    *node.PROJECTS,
    *languages.PROJECTS,
    *compiled.PROJECTS,
    *databases.PROJECTS,
)

KNOWN = {project.name: project.known for project in PROJECTS if project.known}


def chosen(names: Sequence[str]) -> list[Project]:
    """Return the projects of these names or kinds, in the order of the declarations; all if none is named.

    Raises:
        InvalidArgument: a name is not known.
    """
    known = {project.name for project in PROJECTS} | {project.kind for project in PROJECTS}
    for name in names:
        if name not in known:
            raise InvalidArgument(
                f"cannot run '{name}': no such project", hint=f"one of {', '.join(sorted(known))}"
            )
    return [project for project in PROJECTS if not names or {project.name, project.kind} & set(names)]
