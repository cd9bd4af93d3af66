"""The version, which stands in one place; everything else is in pyproject.toml."""

import re
from pathlib import Path

from setuptools import setup

header = Path(__file__).resolve().parents[2] / "include" / "hcomp" / "core" / "version.hpp"
numbers = re.findall(r"#define HCOMP_VERSION_[A-Z]+ ([0-9]+)", header.read_text())
setup(version=".".join(numbers))
