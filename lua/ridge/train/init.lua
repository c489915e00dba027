-- SPDX-License-Identifier: MIT
--- Training: the trainer, and tensors in files.

local file = require 'ridge.train.file'

return { Trainer = require('ridge.train.trainer').Trainer, save = file.save, load = file.load }
