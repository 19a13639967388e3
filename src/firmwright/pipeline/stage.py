"""Defines the class of the stages of a job."""

from __future__ import annotations

from .declaration import ALL as ALL
from .declaration import Scope as Scope
from .declaration import StageDeclaration
from .job import Job

Stage = StageDeclaration[Job]
