"""The corpus in the package: whole books held out, one order, what its table says."""

from collections import Counter

import pytest

from corpora.books import Book, author_rows, books, masked_sentences
from corpora.registry import open_corpus
from corpora.text import Tokenizer
from runtime.errors import UserError


def test_each_author_has_books_to_train_on_and_two_others_held_out() -> None:
    by_split = {split: list(books(split)) for split in ("train", "heldout")}
    authors = {split: Counter(book.author for book in split_books) for split, split_books in by_split.items()}
    assert len(authors["train"]) == 10 and authors["train"].keys() == authors["heldout"].keys()
    assert set(authors["heldout"].values()) == {2}
    titles = [book.title for split_books in by_split.values() for book in split_books]
    assert len(set(titles)) == len(titles)
    held_out = {text for book in by_split["heldout"] for text in book.sentences if len(text) > 60}
    assert not held_out & {text for book in by_split["train"] for text in book.sentences}


def test_the_table_counts_the_sentences_of_each_book() -> None:
    assert sum(len(book.sentences) for book in books("train")) == 28_000
    assert sum(len(book.sentences) for book in books("heldout")) == 5_928
    book = next(book for book in books() if book.title == "The Invisible Man")
    assert (book.author, book.year) == ("H.G. Wells", 1897)
    assert book.sentences[0].startswith("The stranger came early in February, one wintry day")


def test_a_book_is_a_document_and_the_default_is_train() -> None:
    corpus = open_corpus("books", limit=800)
    first, second = corpus
    assert first.id == "Arthur Conan Doyle: The Adventure of the Second Stain"
    assert (len(first.sentences), len(second.sentences)) == (741, 59)
    assert first.sentences[1].tokens[:5] == ("This", "resolution", "of", "mine", "was")
    assert corpus.identity["split"] == "train" != open_corpus("books", split="heldout").identity["split"]
    with pytest.raises(UserError, match="--split dev"):
        open_corpus("books", split="dev")
    with pytest.raises(UserError, match="--format running: books has a sentence per line"):
        open_corpus("books", format="running")


def test_names_and_numerals_are_masked_but_words_that_begin_a_sentence_are_not() -> None:
    sentences = ("The man met Mary in 1897.", 'Then Mary said: "They know the Man."', "Mary left London.")
    book = Book(split="train", author="A", title="T", year=1900, sentences=sentences)
    first, second, third = masked_sentences(book, Tokenizer("spacy", running=False))
    assert first == ["The", "man", "met", "Name", "in", "0", "."]
    assert second == ["Then", "Name", "said", ":", '"', "They", "know", "the", "Man", ".", '"']
    assert third == ["Name", "left", "Name", "."]


def test_rows_of_authors_are_of_held_out_books_and_of_middle_length() -> None:
    rows, labels, authors = author_rows("heldout")
    assert len(authors) == 10 and Counter(labels).most_common()[-1][1] > 200
    assert all(6 <= len(tokens) <= 40 for tokens in rows)
