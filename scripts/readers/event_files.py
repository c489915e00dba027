# SPDX-License-Identifier: MIT
"""What TensorBoard's own reader finds in a folder of event files, as one line of JSON.

usage: event_files.py FOLDER
"""
import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

events = EventAccumulator(sys.argv[1], {"scalars": 0, "histograms": 0, "images": 0, "tensors": 0})
events.Reload()
tags = events.Tags()
out = {
    "scalars": {t: [[v.step, v.value] for v in events.Scalars(t)] for t in tags["scalars"]},
    "images": {t: [[v.step, v.width, v.height, v.encoded_image_string[1:4].decode()]
                   for v in events.Images(t)] for t in tags["images"]},
    "histograms": {t: [[v.step, v.histogram_value.min, v.histogram_value.max,
                        v.histogram_value.num, sum(v.histogram_value.bucket)]
                       for v in events.Histograms(t)] for t in tags["histograms"]},
    "hparams": {},
}
for tag, content in events.PluginTagToContent("hparams").items():
    data = HParamsPluginData.FromString(content)
    if data.HasField("session_start_info"):
        start = data.session_start_info
        out["hparams"] = {k: getattr(v, v.WhichOneof("kind")) for k, v in start.hparams.items()}
        out["group"] = start.group_name
    if data.HasField("session_end_info"):
        out["status"] = data.session_end_info.status
json.dump(out, sys.stdout, sort_keys=True)
