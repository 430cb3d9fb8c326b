"""Makes a Llama model of random weights with a tokenizer of its own: 9 MB.

    tiny_hf.py [--no-weights] DIR

It makes a real engine do everything that it does for a real model, except
for most of the arithmetic. What it says means nothing. An engine that only
mocks the arithmetic needs no weights, and then this needs no torch.
"""

import glob
import sys
import sysconfig

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, PreTrainedTokenizerFast

VOCABULARY = 4096
CHAT = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def tokenizer():
    # Any text will do that is there, is the same every time, and reads a bit
    # like language: Python's own standard library.
    sources = sorted(glob.glob(sysconfig.get_path("stdlib") + "/*.py"))
    if not sources:
        sys.exit("tiny_hf: found no text to train the tokenizer on")
    texts = [open(f, errors="ignore").read() for f in sources]
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    t.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=t, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    fast.chat_template = CHAT
    return fast


def config():
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=64,
        max_position_embeddings=8192,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        tie_word_embeddings=True,
    )


def model():
    import torch
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(config()).to(torch.float32)


def main():
    args = sys.argv[1:]
    weights = "--no-weights" not in args
    if not weights:
        args.remove("--no-weights")
    if len(args) != 1:
        sys.exit(__doc__)
    tokenizer().save_pretrained(args[0])
    if weights:
        model().save_pretrained(args[0])
    else:
        config().save_pretrained(args[0])


main()
