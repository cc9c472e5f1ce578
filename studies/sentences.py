r"""List every text that an evaluation encodes, one a line, each once.

    python -m studies.sentences sentences.txt --tasks all,SNLI --data SENTEVAL
    python -m studies.sentences sentences.txt --tasks STS,STSBenchmark,SICKRelatedness --data SENTEVAL \
        --words WORDS --phrases ppdb-2.0-s-phrasal.gz --held-out 0.03 --semeval2013 FOLDER
    python -m studies.sentences sentences.txt --questions builtin

The list is for encoders of other programs, such as Universal Sentence Encoder, InferSent, GenSen and
SkipThought. Store the vectors of the lines, and give the file in place of an encoder to the commands here::

    lines = open("sentences.txt", encoding="utf-8", newline="\n").read().split("\n")[:-1]
    numpy.savez("use.npz", sentences=lines, vectors=vectors)

If the files of a task are missing, the task is named, the texts of the others are written, and the exit code
is 2.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from tyro.conf import Positional

from runtime.cli import Command, Fraction, configuration
from runtime.errors import UserError
from runtime.files import write_text


@configuration
class SentencesConfig:
    """Options of ``studies.sentences``, named as in the commands that evaluate."""

    output: Positional[Path]
    """The file to write."""
    tasks: str = ""
    """Tasks and groups of SentEval, separated by commas, as in senteval_runner.run."""
    data: Path | None = None
    """Folder with downstream/ and probing/; None is $MULTIVIEW_DATA, else data."""
    questions: str | None = None
    """Questions of studies.analogies: builtin, those in the package, or a file."""
    words: Path | None = None
    """Folder of word sets, as in studies.similarity."""
    phrases: Path | None = None
    """PPDB 2.0 file, as in studies.similarity."""
    held_out: Fraction = 0.0
    """The fraction of --phrases that is scored; 0 scores all."""
    semeval2013: Path | None = None
    """Folder of SemEval-2013 task 5(a)."""
    sets: tuple[str, ...] = ()
    """Passage sets, as in studies.passages."""
    faqs: tuple[Path, ...] = ()
    """FAQ sets, as in studies.faq."""


def texts(config: SentencesConfig) -> Iterator[str]:
    """Yield every text of the sets that the options name, except those of ``tasks``."""
    from corpora.ranking.sets import read_set
    from studies.analogies.questions import questions_file, read_questions
    from studies.faq.evaluate import read_faq
    from studies.similarity.config import SimilarityConfig
    from studies.similarity.run import open_sets

    for question in read_questions(questions_file(config.questions)) if config.questions else ():
        yield from question.texts
    options = ("words", "phrases", "held_out", "semeval2013")
    similarity = SimilarityConfig(models=(), **{name: getattr(config, name) for name in options})
    for pairs in open_sets(similarity, tasks=()):
        yield from pairs.texts
    for data in map(read_set, config.sets):
        yield from data.passages
        yield from (question.text for split in data.splits.values() for question in split)
    for faq in map(read_faq, config.faqs):
        yield from (*faq.queries, *faq.questions, *faq.answers)


def main(config: SentencesConfig) -> int:
    """Write the distinct texts, with tokens joined by a space; return 2 if a task is missing, else 0.

    Raises UserError if there is no text.
    """
    from corpora.senteval.files import read_task
    from corpora.senteval.tasks import data_folder, expand_tasks
    from multiview.names.encoder import text_of

    distinct: dict[str, None] = {}
    missing = []
    for name in expand_tasks(config.tasks) if config.tasks else ():
        try:
            task = read_task(name, data_folder(config.data))
        except UserError as error:
            missing.append(f"left out: {name}: {error}")
            continue
        for split in task.splits.values():
            distinct |= dict.fromkeys(map(text_of, split.sentences()))
    distinct |= dict.fromkeys(text_of(text.split()) for text in texts(config))
    if not distinct:
        options = "--tasks, --questions, --words, --phrases, --semeval2013, --sets or --faqs"
        raise UserError("; ".join(missing) or f"no text to list: give {options}")
    write_text(config.output, "".join(f"{text}\n" for text in distinct))
    print(*missing, f"{config.output}: {len(distinct):,} texts", sep="\n")
    return 2 if missing else 0


cli = Command(SentencesConfig, main, "studies.sentences", (__doc__ or "").split("\n")[0])


if __name__ == "__main__":
    sys.exit(cli())
