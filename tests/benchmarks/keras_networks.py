"""Write TFLite networks with random weights, whose numbers are in docs/reference/benchmarks.md.

    python -m tests.benchmarks.keras_networks FOLDER

The command needs the package tensorflow-cpu 2.21, in a separate environment.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

WIDTH, STEPS, FEATURES, HEADS = 64, 64, 40, 4
"""The sizes of the transformer encoder."""


def make_transformer() -> tf.keras.Model:
    """Return an encoder of two layers with 5.4 million multiply-accumulates."""
    layers = tf.keras.layers
    x = given = layers.Input((STEPS, FEATURES), batch_size=1)
    x = layers.Dense(WIDTH)(x)
    for _ in range(2):
        attended = layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(x, x)
        x = layers.LayerNormalization()(x + attended)
        hidden = layers.Dense(2 * WIDTH, activation="relu")(x)
        x = layers.LayerNormalization()(x + layers.Dense(WIDTH)(hidden))
    x = layers.GlobalAveragePooling1D()(x)
    return tf.keras.Model(given, layers.Dense(10, activation="softmax")(x))


def make_cnn() -> tf.keras.Model:
    """Return a CNN with 4.6 million multiply-accumulates."""
    layers = tf.keras.layers
    x = given = layers.Input((32, 32, 3), batch_size=1)
    for channels, stride in ((16, 1), (32, 2), (32, 1), (32, 2)):
        x = layers.Conv2D(channels, 3, stride, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return tf.keras.Model(given, layers.Dense(10, activation="softmax")(x))


def make_unet() -> tf.keras.Model:
    """Return a U-Net for pictures of 64x64 with three levels."""
    layers = tf.keras.layers

    def convolve(x: tf.Tensor, channels: int) -> tf.Tensor:
        for _ in range(2):
            x = layers.Conv2D(channels, 3, padding="same", activation="relu")(x)
        return x

    given = layers.Input((64, 64, 3), batch_size=1)
    first = convolve(given, 8)
    second = convolve(layers.MaxPooling2D()(first), 16)
    x = convolve(layers.MaxPooling2D()(second), 32)
    for skipped, channels in ((second, 16), (first, 8)):
        x = layers.Conv2DTranspose(channels, 2, 2, activation="relu")(x)
        x = convolve(layers.Concatenate()([x, skipped]), channels)
    return tf.keras.Model(given, layers.Conv2D(4, 1)(x))


def make_tcn() -> tf.keras.Model:
    """Return a causal convolutional network of 128 steps with 3.0 million multiply-accumulates."""
    layers = tf.keras.layers
    x = given = layers.Input((128, 16), batch_size=1)
    for dilation in (1, 2, 4, 8):
        skipped = x if x.shape[-1] == 32 else layers.Conv1D(32, 1)(x)
        for _ in range(2):
            x = layers.Conv1D(32, 3, padding="causal", dilation_rate=dilation, activation="relu")(x)
        x = layers.Add()([x, skipped])
    x = layers.GlobalAveragePooling1D()(x)
    return tf.keras.Model(given, layers.Dense(10, activation="softmax")(x))


def convert(model: tf.keras.Model, numbers: str) -> bytes:
    """Return the model with float32, int8 or int16 activations."""
    random = np.random.default_rng(0)

    def calibrate() -> Iterator[list[npt.NDArray[np.float32]]]:
        for _ in range(32):
            yield [random.standard_normal(model.input_shape).astype("float32")]

    concrete = tf.function(model).get_concrete_function(tf.TensorSpec(model.input_shape))
    frozen = convert_variables_to_constants_v2(concrete)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    if numbers == "float32":
        return bytes(converter.convert())
    wide = numbers == "int16"
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = calibrate
    sets = tf.lite.OpsSet
    wide_set = sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
    converter.target_spec.supported_ops = [wide_set if wide else sets.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int16 if wide else tf.int8
    return bytes(converter.convert())


NETWORKS = {
    "transformer": (make_transformer, "int8"),
    "cnn": (make_cnn, "int8"),
    "cnn_int16": (make_cnn, "int16"),
    "cnn_float": (make_cnn, "float32"),
    "tcn": (make_tcn, "int8"),
    "unet": (make_unet, "int8"),
    "unet_float": (make_unet, "float32"),
}
"""The function and the type of the activations of each network."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for name, (make, numbers) in NETWORKS.items():
        tf.keras.utils.set_random_seed(0)
        (folder / f"{name}.tflite").write_bytes(convert(make(), numbers))


if __name__ == "__main__":
    main()
