"""The communication of a training step with ResNet-50's 25.6 M gradients, and with VGG-16's 138 M and their large last layers.

    python3 -m gimbal.run -n 2 examples/torch_resnet_like.py
"""

import torch_step_time


def normalized(inputs, outputs, window):
    """A convolution and its batch normalization."""
    return [(outputs, inputs, window, window), (outputs,), (outputs,)]


def resnet50():
    layers = [normalized(3, 64, 7)]
    inputs = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            shortcut = normalized(inputs, 4 * width, 1) if block == 0 else []
            layers.append(normalized(inputs, width, 1) + normalized(width, width, 3) + normalized(width, 4 * width, 1) + shortcut)
            inputs = 4 * width
    return [*layers, [(1000, inputs), (1000,)]]


def vgg16():
    layers, inputs = [], 3
    for width, convolutions in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(convolutions):
            layers.append([(width, inputs, 3, 3), (width,)])
            inputs = width
    return [*layers, [(4096, 512 * 7 * 7), (4096,)], [(4096, 4096), (4096,)], [(1000, 4096), (1000,)]]


if __name__ == "__main__":
    torch_step_time.main({"resnet50": resnet50(), "vgg16": vgg16()}, __doc__.splitlines()[0])
