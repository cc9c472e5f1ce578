"""Small random transformers with their tokenizers, as pretrained models lie on disk."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5Model,
    T5TokenizerFast,
)

TEXT = [
    "the cat sat on the mat .",
    "a dog chased cats ( sleeping )",
    "it rains , naïve old men see boats",
] * 4
SIZES = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}


def save_bert(folder: Path, *, positions: int = 512) -> Path:
    """BERT with word pieces, lower-cased, [CLS] and [SEP]."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=90, special_tokens=special))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]", model_max_length=positions,
    )  # fmt: skip
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(fast), max_position_embeddings=positions, **SIZES)
    return _save(BertModel(config), folder)


def save_roberta(folder: Path, *, positions: int = 514) -> Path:
    """RoBERTa with byte pairs, <s> and </s>; its padding has id 1."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        TEXT, trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=alphabet)
    )
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>",
        cls_token="<s>", sep_token="</s>", mask_token="<mask>", model_max_length=positions - 2,
    )  # fmt: skip
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=len(fast), max_position_embeddings=positions, pad_token_id=1, bos_token_id=0,
        eos_token_id=2, **SIZES,
    )  # fmt: skip
    return _save(RobertaModel(config), folder)


def save_t5(folder: Path) -> Path:
    """T5 with a unigram vocabulary; benepar reads its decoder."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(
        TEXT, trainers.UnigramTrainer(vocab_size=80, special_tokens=special, unk_token="<unk>")
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    fast = T5TokenizerFast.from_pretrained(folder, model_max_length=512, extra_ids=0)
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(fast), d_model=24, d_kv=12, d_ff=32, num_layers=2, num_heads=2, pad_token_id=0,
        decoder_start_token_id=0,
    )  # fmt: skip
    return _save(T5Model(config), folder)


def _save(model: torch.nn.Module, folder: Path) -> Path:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "norm" not in name.lower():
                parameter.normal_(0, 0.3)  # far from each other, so that scores have no near ties
    model.save_pretrained(folder)
    return folder
