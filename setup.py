"""What pyproject.toml cannot say: in a wheel, the top-level data folders lie in rltui/_data. See rltui/data.py."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
DATA = ("sample_configs", "themes")


class BuildWithData(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:  # a checkout has the folders where they are
            for name in DATA:
                target = Path(self.build_lib, "rltui", "_data", name)
                self.copy_tree(str(HERE / name), str(target))


setup(cmdclass={"build_py": BuildWithData})
