#!/usr/bin/env bash
# Trains the digits model from scratch with nacre train: train_digits.sh NACRE FOLDER. The first 1437 digits of
# examples/digits/digits.bin train, the last 360 validate; both become idx files in FOLDER, and the model digits.onnx.
set -eu
nacre=$1 folder=$2 digits=examples/digits
mkdir -p "$folder"

# idx NAME HEADER FIRST BYTES: a piece of digits.bin (see examples/digits/README.md) behind idx's header: two zeros, the
# type of bytes, how many dims, each as four bytes.
idx() { { printf '\0\0\10'"$2"; tail -c "+$3" $digits/digits.bin | head -c "$4"; } >"$folder/$1.idx"; }
idx train-labels '\1\0\0\5\235' 17 1437
idx test-labels '\1\0\0\1\150' 1454 360
idx train-pixels '\3\0\0\5\235\0\0\0\10\0\0\0\10' 1814 91968
idx test-pixels '\3\0\0\1\150\0\0\0\10\0\0\0\10' 93782 23040

"$nacre" train $digits/digits.onnx --fresh --loss cross_entropy --loss-input logits \
    --data "pixels=$folder/train-pixels.idx" --data "labels=$folder/train-labels.idx" \
    --validation "pixels=$folder/test-pixels.idx" --validation "labels=$folder/test-labels.idx" \
    --epochs 8 --lr 0.004 --schedule cosine --seed 1 -o "$folder/training" --export "$folder/digits.onnx"
