-- SPDX-License-Identifier: MIT
--- graph:optimize('aggressive', { calibrate = loader }): the net that a graph was recorded of, in 8
--- bits where that was measured to be as fast.

local blame = require 'ridge.blame'
local inference = require('ridge.tensor.mode').inference
local make = require 'ridge.tensor.make'
local options = require 'ridge.options'
local report = require 'ridge.quant.report'
local static = require('ridge.quant.static').static

local M = {}

local WHAT = 'graph:optimize'

local SPEC = {
  calibrate = { 'table', required = true, doc = 'a loader of inputs, whose ranges are observed' },
  batches = { 'integer', default = 100, min = 1, doc = 'of it, at most' },
  rows = { 'number|boolean', doc = 'with which layers are timed; false: all are taken' },
}

local function is_net(x) return type(x) == 'table' and type(x.state) == 'function' end

-- The net that was recorded, called by itself or in ridge.inference.
local function net_of(graph)
  local of = graph._made and graph._made.of or {}
  local net = is_net(of.f) and of.f or of.f == inference and is_net(of.first) and of.first or nil
  if not net or #graph:inputs() ~= 1 or #graph:outputs() ~= 1 then
    blame.raise(WHAT .. ': calibrate is for graphs of a net with one input, '
      .. 'ridge.graph(ridge.inference, net, x), while there is that net', 'EARG', 'graph')
  end
  return net
end

--- The graph of the quantized net, on which the passes have run.
---@param graph table
---@param names string|string[]
---@param opts table calibrate, batches, rows
---@return table graph
function M.of(graph, names, opts)
  opts = options.check(SPEC, opts, WHAT)
  if names ~= 'aggressive' then
    blame.raise(WHAT .. ": calibrate is of 'aggressive': 8 bits change what is computed", 'EARG',
      'graph')
  end
  local net, input = net_of(graph), graph:inputs()[1]
  local rows = opts.rows
  if rows == nil then rows = math.max(input.shape[1] or 1, 1) end
  local q = static(net, { calibrate = opts.calibrate, batches = opts.batches, rows = rows })
  local sizes = { unpack(input.shape) }
  sizes[#sizes + 1] = { dtype = input.dtype, device = input.device }
  local made = require('ridge').graph(inference, q, make.zeros(unpack(sizes)))
    :optimize 'aggressive'
  made.quantized = report.report(q)
  return made
end

return M
