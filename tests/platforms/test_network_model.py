import subprocess
import sys

from faultline.platforms import ENGINE_CONFIGURATION, engine_arguments


def test_the_options_are_arguments_of_the_engine() -> None:
    arguments = engine_arguments()
    assert arguments[0] == "--cfg=network/model:CM02"
    assert len(arguments) == len(ENGINE_CONFIGURATION)


def test_importing_platforms_does_not_import_simgrid() -> None:
    code = "import platforms, sys; sys.exit('simgrid' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
