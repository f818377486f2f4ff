"""Tokenizers of the kinds that models have, each as mlx-lm wraps it, with ChatML's marks and template.

They are trained in a moment on a few sentences, so that text is merged and split as real ones do it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as mx
from mlx_lm.tokenizer_utils import NewlineTokenizer, TokenizerWrapper
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from app.engine import demo
from tests.support.tiny import CHATML, SPECIAL_TOKENS

CORPUS = [
    "The samovar stands on the table, and the tea is hot.",
    "assistant\n\nSunny, and warm.\n\n\n",
    "user: What is the weather? It is 2026.",
    "def f(x):\n    return x  # ok\n",
    'Größe ☕ 茶壶 {"town": "Bern"}',
    "system\nBe brief.\n",
] * 9

MARKS = [AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS]

OVERLAPPING = [
    # Longer than a mark and begun as one; taking in white space; part of no word; found after normalising.
    AddedToken("<|im_end|>\nu", special=True, normalized=False),
    AddedToken("s<|im_start|>", special=False, normalized=False),
    AddedToken("<l>", special=True, normalized=False, lstrip=True),
    AddedToken("<r>", special=True, normalized=False, rstrip=True),
    AddedToken("tea", special=False, normalized=False, single_word=True),
    AddedToken("<n>", special=False, normalized=True),
    AddedToken("\n\n", special=False, normalized=False),
]


def wrapped(
    tokenizer: Tokenizer,
    kind: type[PreTrainedTokenizerFast] = PreTrainedTokenizerFast,
    *,
    end: str | None = SPECIAL_TOKENS[1],
) -> Any:
    """As it is after a load. A token that ends a turn becomes a mark by being named as such."""
    return TokenizerWrapper(kind(tokenizer_object=tokenizer, eos_token=end, chat_template=CHATML))


def _trained(tokenizer: Tokenizer, trainer: Any, marks: list[AddedToken]) -> Tokenizer:
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens(marks)
    return tokenizer


def byte_pairs(marks: list[AddedToken] = MARKS, **options: Any) -> Tokenizer:
    """Merges within words and within runs of white space, as most models have them."""
    bpe = Tokenizer(models.BPE(**options))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return _trained(
        bpe, trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False), marks
    )


def bytes_alone() -> Tokenizer:
    """One token a byte, and no word."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(MARKS)
    return tokenizer


def sentence_pieces() -> Tokenizer:
    """The likeliest pieces of text in which blanks are letters; the first piece of all gets one before it."""
    unigram = Tokenizer(models.Unigram())
    unigram.normalizer = normalizers.NFKC()
    unigram.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    unigram.decoder = decoders.Metaspace(prepend_scheme="first")
    trainer = trainers.UnigramTrainer(
        vocab_size=300, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False
    )
    return _trained(unigram, trainer, MARKS)


def merged_sentences() -> Tokenizer:
    """Merges over whole texts, blanks included, which only marks split; each piece begins with a blank."""
    bpe = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    bpe.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<unk>"], show_progress=False)
    return _trained(bpe, trainer, MARKS)


def normalised() -> Tokenizer:
    """Words of lower-case letters; full-width marks and capital ones are normalised to what marks are."""
    words = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    words.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"<\|\w+\|>"), "isolated"), pre_tokenizers.Whitespace()]
    )
    trainer = trainers.WordPieceTrainer(
        vocab_size=300, special_tokens=["[UNK]", *SPECIAL_TOKENS], show_progress=False
    )
    return _trained(words, trainer, MARKS)


def of_the_demo_model() -> Tokenizer:
    """The one that the demo model has."""
    loaded: Any = mx.load(str(demo._gguf_file()), return_metadata=True)
    return demo._tokenizer(loaded[1])


TOKENIZERS: Mapping[str, Callable[[], Any]] = {
    "bytes": lambda: wrapped(bytes_alone()),
    "byte pairs": lambda: wrapped(byte_pairs()),
    "demo": lambda: wrapped(of_the_demo_model()),
    "sentence pieces": lambda: wrapped(sentence_pieces()),
    "merged sentences": lambda: wrapped(merged_sentences()),
    "normalised": lambda: wrapped(normalised()),
    "overlapping marks": lambda: wrapped(byte_pairs([*MARKS, *OVERLAPPING])),
}
"""Those whose texts are cut at marks."""

UNCUT: Mapping[str, Callable[[], Any]] = {
    "no marks": lambda: wrapped(byte_pairs([]), end=None),
    "marks in words": lambda: wrapped(
        byte_pairs([AddedToken(token, normalized=True) for token in SPECIAL_TOKENS]), end=None
    ),
    "dropout": lambda: wrapped(byte_pairs(dropout=0.5)),
    "changes the text": lambda: wrapped(byte_pairs(), NewlineTokenizer),
}
"""Those of which nothing is known that would let a text be cut."""
