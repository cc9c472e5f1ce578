"""A forked process works at once, whatever other threads of its parent were doing."""

import pytest

from tests.fixtures.processes import run_python

IMPORTS = """
import sys
from numba.core.compiler_lock import global_compiler_lock
import multiview.judge, multiview.model, multiview.search, parsing
from runtime.process import LOADING

class Watch:
    def find_spec(self, name, path=None, target=None):
        if not (LOADING._is_owned() or global_compiler_lock.is_locked()):
            frame, places = sys._getframe(1), []
            while frame is not None:
                places.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
                frame = frame.f_back
            outside[name] = next((place for place in places if "importlib" not in place), "?")

outside = {}
sys.meta_path.insert(0, Watch())
encoder = multiview.model.MultiViewEncoder.load("builtin", "cpu")
judge = multiview.judge.Judge.load()
sentences = ["I do not go.", "A cat sat.", ["a", "dog"]] * 150
encoder.encode(sentences[1]), encoder.encode(sentences), encoder.structure_vectors(sentences)
[str(each) for each in judge.pairs([("I do not go.", "I go."), ("The cat sat.", "A dog sat.")])]
str(encoder.explain("The cat sat.", "A dog sat.")), str(parsing.load()("The cat sat. It ran."))
multiview.model.MultiViewEncoder.untrained("dep,const,seq", dim=4, word_dim=4).encode(sentences)
print(outside)
"""

FORKS = """
import os, threading, time
from multiview.judge import Judge
from multiview.model import MultiViewEncoder

judge, encoder = Judge.load(), MultiViewEncoder.load("builtin", "cpu")
pairs = [("A cat sat.", "The dog ran.")]

def work():
    judge.pairs(pairs)[0].reasons
    encoder.encode(pairs[0], show_progress_bar=True)

def load():
    Judge.load()
    MultiViewEncoder.load("builtin", "cpu").encode(pairs[0])

def repeat(function):
    while True:
        function()

work(), load()
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # for the bars
for function in (work, work, load):
    threading.Thread(target=repeat, args=(function,), daemon=True).start()
for number in range(30):
    child = os.fork()
    if not child:
        work() if number % 10 else load()
        os._exit(0)
    end = time.monotonic() + 60
    while not (status := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.002)
    if not status[0]:
        os.kill(child, 9)
    assert status == (child, 0), f"child {number} waits for ever or failed: {status}"
print("all answered")
os._exit(0)
"""


def test_modules_are_imported_in_calls_only_under_a_lock_that_forks_wait_for() -> None:
    """The child of a fork in the middle of an import would wait for its lock for ever."""
    done = run_python("-c", IMPORTS)
    assert done.stdout.splitlines()[-1:] == ["{}"], done.stdout + done.stderr


@pytest.mark.timeout(900)
def test_thirty_forks_under_load_answer() -> None:
    """While other threads judge, encode with a bar, and load; without locks one of 43 does not."""
    done = run_python("-c", FORKS, timeout_s=900)
    assert done.stdout == "all answered\n", done.stderr[-2000:]
