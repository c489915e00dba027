-- SPDX-License-Identifier: MIT
--- Two ONNX files, or a file here and in another program, as candidates of ridge.measure.ab: made
--- in each of its processes.

local ab = require 'ridge.measure.ab'
local draw = require 'ridge.onnx.draw'
local external = require 'ridge.measure.external'
local literal = require 'ridge.measure.literal'
local load = require('ridge.onnx.load').load

local M = {}

local function plan_of(path, spec)
  local ridge = require 'ridge'
  local m = load(path)
  local inputs = draw.inputs(m, spec.sizes, spec.seed)
  local graph = ridge.graph(m, unpack(inputs))
  return (spec.passes == 'none' and graph or graph:optimize(spec.passes)):plan()
end

--- What a process makes (ridge.measure.fresh).
---@param text string of ridge.measure.literal: a, b (paths) or command; sizes, seed, passes,
---  timeout
---@return table[] list with again
function M.candidates(text)
  local spec = literal.decode(text)
  local made = external.lasting(function()
    local b = spec.command and external.external { command = spec.command,
      timeout = spec.timeout }
      or plan_of(spec.b, spec)
    return { { name = 'ab', a = { plan = plan_of(spec.a, spec) }, b = { plan = b } } }
  end)
  local list = made()
  list.again = made
  return list
end

--- Compare two files, or a file with what a command runs.
---@param spec table a, b or command, sizes, seed, passes (none, standard or aggressive),
---  timeout (seconds that the command may take to answer)
---@param opt table options of ridge.measure.ab, without a, b and setup
---@return table result as of ridge.measure.ab
function M.compare(spec, opt)
  local checked = ab.options(opt, 'measure.ab')
  local source = { module = 'ridge.cli.onnx_pair', spec = literal.encode(spec) }
  return ab.with_source(source, checked, function(runners, around)
    return ab.compare(runners, 'ab', checked, around)
  end)
end

return M
