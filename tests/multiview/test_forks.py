"""A forked process works at once, whatever other threads of its parent were doing."""

from tests.fixtures.processes import run_python

IMPORTS = """
import sys
from numba.core.compiler_lock import global_compiler_lock
import multiview.judge, multiview.model, multiview.search, parsing
from runtime.surroundings import LOADING

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
sentences = ["I do not go.", "A cat sat.", ["a", "dog"]] * 400
encoder.encode(sentences[1]), encoder.encode(sentences), encoder.structure_vectors(sentences)
[str(each) for each in judge.pairs([("I do not go.", "I go."), ("The cat sat.", "A dog sat.")])]
str(encoder.explain("The cat sat.", "A dog sat.")), str(parsing.load()("The cat sat. It ran."))
multiview.model.MultiViewEncoder.untrained("dep,const,seq", dim=4, word_dim=4).encode(sentences)
print(outside)
"""


def test_modules_are_imported_in_calls_only_under_a_lock_that_forks_wait_for() -> None:
    """The child of a fork in the middle of an import would wait for its lock for ever."""
    done = run_python("-c", IMPORTS)
    assert done.stdout.splitlines()[-1:] == ["{}"], done.stdout + done.stderr
