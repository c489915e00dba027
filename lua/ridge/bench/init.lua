-- SPDX-License-Identifier: MIT
--- Benchmarks: models over batch sizes, what they cost in time and memory, and the best batch size.

local batch_size = require 'ridge.bench.batch_size'
local configs = require 'ridge.bench.config'
local layer = require 'ridge.bench.layer'
local sweeps = require 'ridge.bench.sweep'
local suite = require 'ridge.bench.suite'

local M = {
  config = configs.config,
  model = suite.run,
  compare = suite.run,
  memory = suite.memory,
  sweep = sweeps.sweep,
  report = sweeps.report,
  batch_size = batch_size.find,
  parse = layer.parse,
}

return M
