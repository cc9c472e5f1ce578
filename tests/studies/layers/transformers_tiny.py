"""Small random transformers with the tokenizers of their families, built without downloads."""

from __future__ import annotations

from pathlib import Path

TEXT = "a the bad dull poor good bright rich tall far near . cat sat on"
WORDS = tuple(TEXT.split())
FRAMES = {
    # family: special tokens (pad first), template, roles, padding side
    "bert": (["[PAD]", "[UNK]", "[CLS]", "[SEP]"], "[CLS] $A [SEP]", ("[CLS]", "[SEP]"), "right"),
    "roberta": (["<s>", "<pad>", "</s>", "<unk>"], "<s> $A </s>", ("<s>", "</s>"), "right"),
    "albert": (["<pad>", "<unk>", "[CLS]", "[SEP]"], "[CLS] $A [SEP]", ("[CLS]", "[SEP]"), "right"),
    "xlnet": (["<pad>", "<unk>", "<sep>", "<cls>"], "$A <sep> <cls>", ("<cls>", "<sep>"), "left"),
}


def build(folder: Path, family: str, *, layers: int = 3, width: int = 16, seed: int = 0) -> Path:
    """A model folder of Hugging Face: weights and tokenizer."""
    import torch
    import transformers
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    special, template, (cls, sep), side = FRAMES[family]
    vocabulary = {word: i for i, word in enumerate([*special, *WORDS])}
    unknown, pad = (next(t for t in special if name in t.lower()) for name in ("unk", "pad"))
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=unknown))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single=template, special_tokens=[(token, vocabulary[token]) for token in (cls, sep)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        cls_token=cls,
        sep_token=sep,
        pad_token=pad,
        unk_token=unknown,
        padding_side=side,
        model_max_length=64,
    ).save_pretrained(folder)
    sizes = {"vocab_size": len(vocabulary), "pad_token_id": vocabulary[pad]}
    torch.manual_seed(seed)
    if family == "xlnet":
        config = transformers.XLNetConfig(d_model=width, n_layer=layers, n_head=2, d_inner=32, **sizes)
        model = transformers.XLNetModel(config)
    else:
        kind = {"bert": "Bert", "roberta": "Roberta", "albert": "Albert"}[family]
        config = getattr(transformers, f"{kind}Config")(
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=66,
            **sizes,
        )
        model = getattr(transformers, f"{kind}Model")(config)
    with torch.no_grad():  # larger than a fresh model's, so that layers and tokens differ
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.3)
    model.save_pretrained(folder)
    return folder
