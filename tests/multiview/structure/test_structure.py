"""The binding views against their equation, and structure beside an encoder."""

import numpy as np
import pytest
import torch

from multiview.model import MultiViewEncoder
from multiview.structure import with_structure
from multiview.structure.binding import SIBLINGS, WIDTH, OrderView, RolesView, random_maps
from runtime.errors import UserError
from senteval_runner.evaluation_trees import open_model

ACTIVE, PASSIVE, EXCHANGED = (
    "The lawyer praised the doctor.",
    "The doctor was praised by the lawyer.",
    "The doctor praised the lawyer.",
)


@pytest.mark.parametrize("view", [RolesView, OrderView])
def test_a_view_equals_its_equation(packaged_encoder: MultiViewEncoder, view: type[RolesView]) -> None:
    texts = (ACTIVE, PASSIVE, "Rain.", "The film was not good.")
    sentences = [(*text[:-1].split(), ".") for text in texts]
    batch = packaged_encoder.reader.parse(sentences, {"dep"})
    assert batch.types is not None
    words = packaged_encoder.network.words
    x_UE = words.rows(0, words.vocabulary.lookup(batch.types)).double()
    encoder = view(x_UE.shape[1], WIDTH)
    plan = encoder.plan(batch)
    vectors = encoder(x_UE, plan, torch.from_numpy(batch.token.astype(np.int64)))
    a_ES, b_ES, sign_RS = (part.double() for part in random_maps(x_UE.shape[1], WIDTH))
    share = torch.from_numpy(plan.spelling_share).double()[:, None]
    assert share.unique().numpy() == pytest.approx([0.85, 1])  # praised and good have opposites
    spelt = torch.nn.functional.normalize(torch.from_numpy(plan.spelling).double()) * share**0.5
    unit = (1 - share) ** 0.5 * x_UE[batch.token[plan.token_of_word]]
    unit /= x_UE[batch.token[plan.token_of_word]].norm(dim=1, keepdim=True)
    left = unit @ a_ES + spelt
    right = torch.cat([(unit @ b_ES + torch.roll(spelt, 1, 1)) * WIDTH**0.5, torch.ones(1, WIDTH)])
    expected = torch.zeros(4, WIDTH, dtype=torch.float64)
    for role, head, dependent, sign, sentence in zip(
        plan.role, plan.head, plan.dependent, plan.sign, plan.sentence, strict=True
    ):
        expected[sentence] += sign * sign_RS[role] * left[head] * right[dependent]
    torch.testing.assert_close(vectors, expected, rtol=1e-6, atol=1e-7)
    assert vectors[2].any()  # one word
    assert set(plan.sign[plan.sentence == 3]) == {-1}  # all of a denied predicate


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("Zoe\u0308 and Rene\u0301e met.", "Zoë and Renée met."),
        ("\ufeffThe law\u00adyer\u200b praised the doc\u2060tor\u200f.", ACTIVE),
        ("She didn’t see the king‘s hat.", "She didn't see the king's hat."),
        ("A self‑made oﬃcer slept.", "A self-made officer slept."),
        (["The", "lawyer\u200b", "isn’t", "cafe\u0301"], ["The", "lawyer", "isn't", "café"]),
    ],
)
def test_vectors_do_not_see_how_a_character_is_written(packaged_encoder, text, same: str | list[str]) -> None:
    for encode in (packaged_encoder.encode, packaged_encoder.features):
        one, other = encode([text, same])
        np.testing.assert_allclose(one, other, atol=1e-5)
    one, other = packaged_encoder.structure_vectors([text, same])
    np.testing.assert_allclose(one, other, atol=1e-5)
    assert one.any()


def test_dep_tells_who_did_what_if_it_knows_the_roles(tmp_path) -> None:
    for relations in (False, True):
        model = MultiViewEncoder.untrained("dep", dim=16, word_dim=8, relations=relations, device="cpu")
        vectors = model.encode([ACTIVE, EXCHANGED, "", "Rain"])
        assert np.isfinite(vectors).all()
        assert np.allclose(vectors[0], vectors[1], atol=1e-6) != relations
        model.save(tmp_path / str(relations))
        loaded_model = MultiViewEncoder.load(tmp_path / str(relations), "cpu")
        assert np.array_equal(loaded_model.encode([ACTIVE, EXCHANGED, "", "Rain"]), vectors)


def test_structure_has_four_sizes(packaged_encoder: MultiViewEncoder, tmp_path) -> None:
    small = MultiViewEncoder.load("builtin", "cpu", structure=0.3, structure_size=128)
    vectors, whole = small.encode([ACTIVE, PASSIVE]), packaged_encoder.structure_vectors([ACTIVE, PASSIVE])
    assert vectors.shape[1] == small.get_sentence_embedding_dimension() == 384 + 128
    cut = whole[:, :128] / np.linalg.norm(whole[:, :128], axis=1, keepdims=True)
    np.testing.assert_allclose(small.structure_vectors([ACTIVE, PASSIVE]), cut, atol=1e-6)
    np.testing.assert_allclose(vectors[:, 384:], 0.3**0.5 * cut, atol=1e-6)
    small.save(tmp_path / "small")
    assert MultiViewEncoder.load(tmp_path / "small", "cpu").structure_size == 128
    for size in (100, 128.0):
        with pytest.raises(UserError, match=f"structure_size={size}: must be one of 128, 256, 512, 1024"):
            with_structure(packaged_encoder, structure_size=size)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"with_structure: source: a str .* is no MultiViewEncoder"):
        with_structure(packaged_encoder, source="builtin")
    with pytest.raises(UserError, match="give one of the two"):
        with_structure(packaged_encoder, source=packaged_encoder, structure_size=128)


def test_names_of_encoders_take_a_share(packaged_encoder: MultiViewEncoder) -> None:
    sentences = [tuple(text[:-1].split()) for text in (ACTIVE, PASSIVE, EXCHANGED)]
    ours, bag = open_model("builtin?structure=0.3"), open_model("bag:random?dim=64?structure=1")
    assert ours.name == "builtin?structure=0.3"
    np.testing.assert_allclose(
        ours.encode(sentences), packaged_encoder.with_options(structure=0.3).encode(sentences), atol=1e-6
    )
    cosines = packaged_encoder.similarity(bag.encode(sentences), bag.encode(sentences))
    assert cosines[0, 1] > cosines[0, 2] + 0.2
    with pytest.raises(UserError, match="structure=3"):
        open_model("builtin?structure=3")


def test_numbers_stand_beside_who_has_them(packaged_encoder: MultiViewEncoder) -> None:
    batch = packaged_encoder.reader.parse(
        [("Ann", "ran", "two", "miles", "and", "Bob", "ran", "five", ".")], {"dep"}
    )
    assert batch.types is not None
    plan = RolesView(8, WIDTH).plan(batch)
    word = [batch.types[batch.token[token]] for token in plan.token_of_word]
    pairs = zip(plan.role, plan.head, plan.dependent, strict=True)
    assert {("Ann", "two"), ("Bob", "five")} <= {(word[a], word[b]) for r, a, b in pairs if r == SIBLINGS}


def test_a_structured_sentence_transformer_is_saved_and_loaded(tmp_path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from multiview.sentence_transformers import MultiViewModule
    from multiview.structure.sentence_transformers import StructureModule

    encoder = MultiViewEncoder.load("builtin", "cpu", structure=0)
    plain = sentence_transformers.SentenceTransformer(modules=[MultiViewModule(encoder)])
    model = with_structure(plain, 0.3, encoder)
    model.save(str(tmp_path))
    card = (tmp_path / "README.md").read_text()
    assert "where multiview-embeddings is installed" in card and "trust_remote_code=True" in card
    loaded_model = sentence_transformers.SentenceTransformer(str(tmp_path), trust_remote_code=True)
    vectors = model.encode([ACTIVE, EXCHANGED])
    np.testing.assert_allclose(loaded_model.encode([ACTIVE, EXCHANGED]), vectors, atol=1e-6)
    np.testing.assert_allclose(
        vectors, encoder.with_options(structure=0.3).encode([ACTIVE, EXCHANGED]), atol=1e-5
    )
    # A source of one's own is saved whatever its name, and is not that of another model saved there later.
    encoder.save(tmp_path / "own" / "builtin")
    own_source = MultiViewEncoder.load(tmp_path / "own" / "builtin", "cpu")
    with_structure(plain, 0.3, own_source).save(str(tmp_path / "m"))
    assert (tmp_path / "m" / "source" / "config.json").is_file()
    assert StructureModule.open(tmp_path / "m", trusts_code=True).source.folder == tmp_path / "m" / "source"
    model.save(str(tmp_path / "m"))
    assert StructureModule.open(tmp_path / "m", trusts_code=True).source.name == "builtin"


def test_sentence_transformers_tools_take_the_model(packaged_encoder: MultiViewEncoder) -> None:
    util = pytest.importorskip("sentence_transformers.util")
    texts = ["A cat sat on the mat.", "Prices fell on Monday.", "The cat was sitting on a mat."]
    assert util.paraphrase_mining(packaged_encoder, texts, show_progress_bar=False)[0][1:] == [0, 2]
    vectors = packaged_encoder.encode(texts, convert_to_tensor=True)
    assert util.semantic_search(vectors[:1], vectors[1:], top_k=1)[0][0]["corpus_id"] == 1


def test_what_a_long_text_repeats_does_not_hide_a_difference(packaged_encoder: MultiViewEncoder) -> None:
    filler = "The committee met in the old town hall on Monday and read the minutes aloud. " * 45
    pair = [f"{filler}The lawyer praised the doctor.", f"{filler}The doctor praised the lawyer."]
    alone = packaged_encoder.structure_vectors(pair)
    assert 0.9 < alone[0] @ alone[1] < 0.999
    beside = packaged_encoder.structure_vectors([*pair, "The lawyer praised the doctor, the lawyer."])
    np.testing.assert_allclose(beside[:2], alone, atol=1e-5)
