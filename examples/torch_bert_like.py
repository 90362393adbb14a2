"""The communication of a training step with BERT-base's 110 M gradients.

    python3 -m gimbal.run -n 2 examples/torch_bert_like.py
"""

import torch_step_time

WIDTH, INNER, LAYERS, WORDS, POSITIONS, SEGMENTS = 768, 3072, 12, 30522, 512, 2


def linear(inputs, outputs):
    return [(outputs, inputs), (outputs,)]


def bert_base():
    norm = [(WIDTH,), (WIDTH,)]
    embeddings = [(WORDS, WIDTH), (POSITIONS, WIDTH), (SEGMENTS, WIDTH), *norm]
    attention = 4 * linear(WIDTH, WIDTH) + norm
    feed_forward = linear(WIDTH, INNER) + linear(INNER, WIDTH) + norm
    return [embeddings, *(LAYERS * [attention, feed_forward]), linear(WIDTH, WIDTH)]


if __name__ == "__main__":
    torch_step_time.main({"bert": bert_base()}, __doc__.splitlines()[0])
