"""Settings for all tests, and what several files need."""

import faulthandler
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings
from sampling import chosen, how_to_repeat, is_taken

# The same examples in every run, however slow the machine.
settings.register_profile("lucid", derandomize=True, deadline=None, database=None)
settings.load_profile("lucid")

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture
def load(monkeypatch):
    """Imports an example by name, and forgets it afterwards: the names are short, others may want them."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield import_module
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(EXAMPLES)):
            del sys.modules[name]


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "sampled(every): one of so many consecutive samples takes the test; see sampling.py"
    )
    try:
        chosen()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_collection_modifyitems(config, items):
    seed = chosen()
    if seed is None:
        return
    marks = [(item, item.get_closest_marker("sampled")) for item in items]
    kept = [item for item, mark in marks if mark is None or is_taken(item.nodeid, mark.kwargs["every"], seed)]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=list(set(items) - set(kept)))
        items[:] = kept


def say_how_to_repeat(config):
    # The processes of pytest-xdist have no terminal.
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if chosen() is not None and terminal is not None:
        terminal.write_line(how_to_repeat(chosen()))


class Crashes:
    """Where the processes of pytest-xdist were when they crashed: each writes it to a file, shown after all else."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        node.workerinput["crashes"] = str(Path(self.folder.name) / node.gateway.id)

    def pytest_terminal_summary(self, terminalreporter):
        for path in sorted(Path(self.folder.name).iterdir()):
            if path.stat().st_size:
                terminalreporter.section(f"where {path.name} crashed")
                lines = path.read_text(errors="replace").splitlines()
                terminalreporter.write_line("\n".join([line for line in lines if "site-packages" not in line]))
        self.folder.cleanup()


def pytest_sessionstart(session):
    say_how_to_repeat(session.config)
    given = getattr(session.config, "workerinput", None)
    if given is None:
        session.config.pluginmanager.register(Crashes())
    else:
        session.config.crashes = open(given["crashes"], "w")  # noqa: SIM115 - as long as the process lives
        faulthandler.enable(session.config.crashes)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(exitstatus, config):
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        say_how_to_repeat(config)
