#!/bin/sh
# SPDX-License-Identifier: MIT
# `make jupyter`: the kernel asked by jupyter_kernel_test, and a notebook run by nbclient.
set -eu
cd "$(dirname "$0")/../.."
folder=$PWD/build/jupyter
scripts/jupyter/install.sh "$folder"
export JUPYTER_DATA_DIR="$folder/data" RIDGE_LOCKS="$folder/locks"
./ridge kernel --install >/dev/null
"$folder/bin/python" scripts/jupyter/kernel_test.py
"$folder/bin/python" scripts/jupyter/notebook.py
