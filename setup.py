"""The part of the build that pyproject.toml cannot say: a wheel has the notebooks and the solutions, so that it alone is a course."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithNotebooks(build_py):
    """Copies notebooks/ and solutions/ into the package course_lib, where course_lib/content.py looks for them."""

    def run(self):
        super().run()
        if self.editable_mode:  # they stay beside it, in the clone
            return
        for name in ("notebooks", "solutions"):
            if Path(name).is_dir():  # students' copies have no solutions
                to = Path(self.build_lib, "course_lib", name)
                shutil.copytree(name, to, ignore=shutil.ignore_patterns(".*", "__pycache__"), dirs_exist_ok=True)


setup(cmdclass={"build_py": WithNotebooks})
