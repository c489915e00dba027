#!/bin/sh
# SPDX-License-Identifier: MIT
# Jupyter's own tools, into a virtual environment, by default build/jupyter: jupyter_kernel_test
# asks a kernel what each message should be answered with, nbclient runs notebooks.
set -eu
folder=${1:-build/jupyter}
if [ ! -e "$folder/complete" ]; then
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check jupyter-kernel-test nbclient
  touch "$folder/complete"
fi
