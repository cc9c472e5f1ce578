"""The spaCy component: what it writes into a document is what the parsers say."""

import pytest
import spacy
from spacy.tokens import DocBin

import parsing
import parsing.spacy_component
from parsing.trees.brackets import read_tree

TEXT = "The cat  sat on the mat.\n\n It didn't (really) sleep!  "


@pytest.fixture(scope="module")
def nlp():
    pipeline = spacy.blank("en")
    pipeline.add_pipe("multiview_parser")
    return pipeline


@pytest.fixture(scope="module")
def doc(nlp):
    return nlp(TEXT)


@pytest.fixture(scope="module")
def trees():
    return parsing.load()(TEXT)


def test_heads_relations_and_tags_are_the_parsers(doc, trees):
    words = [token for token in doc if not token.is_space]
    assert [token.text for token in words] == [word for s in trees for word in s.words]
    assert [token.tag_ for token in words] == [tag for s in trees for tag in s.tags]
    first = 0
    for sentence in trees:
        tokens = words[first : first + len(sentence.words)]
        for token, head, relation in zip(tokens, sentence.heads, sentence.relations, strict=True):
            assert token.head == (tokens[head - 1] if head else token)
            assert token.dep_ == (relation if head else "ROOT")
        first += len(tokens)
    assert [sent.text.split()[0] for sent in doc.sents] == [s.words[0] for s in trees]
    spaces = [token for token in doc if token.is_space]  # they hang from the word before them
    assert [token.head.text for token in spaces] == ["cat", ".", "!"]
    assert {token.tag_ for token in spaces} == {"_SP"}


def test_a_token_without_width_hangs_like_white_space(nlp):
    odd, whole = nlp("Zoe\u0308’s cat \u200b sat."), nlp("Zoë's cat sat.")
    assert [token.text for token in odd] == ["Zoe\u0308", "’s", "cat", "\u200b", "sat", "."]
    assert (odd[3].head.text, odd[3].tag_, odd[3].idx) == ("cat", "_SP", 11)
    visible = [token for token in odd if token.i != 3]
    assert [(t.dep_, t.tag_) for t in visible] == [(t.dep_, t.tag_) for t in whole]


def test_constituents_are_benepars_extensions(doc, trees):
    for sent, tree in zip(doc.sents, trees, strict=True):
        words = [token for token in sent if not token.is_space]
        bracketed = read_tree(sent._.parse_string)  # white space is no word in brackets
        assert bracketed.words == tree.words and "\n" not in sent._.parse_string
        expected = {
            (words[a].i, words[b - 1].i + 1, tuple(label.split("::")))
            for a, b, label in tree.spans[1:]
            if label
        }
        constituents = {(c.start, c.end, c._.labels) for c in sent._.constituents if c._.labels}
        assert constituents - {(sent.start, sent.end, sent._.labels)} == expected
        assert [token.i for child in sent._.children for token in child] == [token.i for token in sent]


def test_sentences_of_an_earlier_component_are_kept_and_odd_documents_pass(nlp):
    doc = nlp.make_doc("one two three four")
    for token in doc:
        token.is_sent_start = token.i in (0, 2)
    assert [sent.text for sent in nlp(doc).sents] == ["one two", "three four"]
    for text in ("", " \n", "  \n Hello"):
        doc = nlp(text)
        assert doc.text == text and len(list(doc.sents)) == bool(text)
        brackets = "".join(sent._.parse_string for sent in doc.sents)
        assert brackets == ("(NP (UH Hello))" if "Hello" in text else "")
    assert all(t.tag_ for t in nlp(spacy.tokens.Doc(nlp.vocab, ["New York"])))
    odd = spacy.tokens.Doc(nlp.vocab, ["New\tYork", "(s)", "sleeps"])
    assert read_tree(next(nlp(odd).sents)._.parse_string).words == ["New_York", "(s)", "sleeps"]


def test_a_pipeline_of_another_language_is_told_once():
    german = spacy.blank("de")
    with pytest.warns(UserWarning, match="English alone, and this pipeline is 'de'"):
        german.add_pipe("multiview_parser", config={"const": None})
    assert [token.dep_ for token in german("Es regnet.")][1] == "ROOT"  # without another word


TEXTS = [
    "The king's old hat and two big, black cats sat on the mat. John Smith slept.",
    "",
    "It is a very good hat.",
]


def test_many_documents_are_parsed_together_here_and_in_other_processes(nlp):
    alone = [nlp(text) for text in TEXTS * 3]
    for docs in (nlp.pipe(TEXTS * 3, batch_size=2), nlp.pipe(TEXTS * 3, n_process=2)):
        for doc, other in zip(docs, alone, strict=True):
            assert doc.to_bytes() == other.to_bytes()
    bin = DocBin(store_user_data=True, docs=alone)
    for doc, other in zip(DocBin().from_bytes(bin.to_bytes()).get_docs(nlp.vocab), alone, strict=True):
        assert [s._.parse_string for s in doc.sents] == [s._.parse_string for s in other.sents]
        assert [s._.labels for s in doc.sents] == [s._.labels for s in other.sents]


def test_parts_of_speech_and_noun_chunks(nlp):
    one, _, other = (nlp(text) for text in TEXTS)
    assert [t.pos_ for t in other] == ["PRON", "AUX", "DET", "ADV", "ADJ", "NOUN", "PUNCT"]
    chunks = ["The king's old hat", "two big, black cats", "the mat", "John Smith"]
    assert [chunk.text for chunk in one.noun_chunks] == chunks
    assert [chunk.text for chunk in other.noun_chunks] == ["It", "a very good hat"]
