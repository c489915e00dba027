-- SPDX-License-Identifier: MIT
--- Models given as text, made anew and timed in passes, each in a fresh process: where memory lies
--- and what the machine does in other minutes is then part of their intervals.

local M = {}

-- The least number of passes that has an interval.
local PASSES = 5

local function canonical() return require 'ridge.store.canonical' end

--- What a pass takes of a protocol: its share of the time, and rounds enough for a median.
---@param protocol table of measure.protocol
---@return table protocol with processes
function M.protocol(protocol)
  local out = {}
  for name, value in pairs(protocol) do out[name] = value end
  out.processes = math.max(PASSES, protocol.processes or 0)
  out.min_rounds = 2
  out.max_rounds = math.max(2, math.floor(protocol.max_rounds / out.processes))
  out.budget_ns = protocol.budget_ns / out.processes
  out.warm_max_ns = math.max(protocol.warm_min_ns, protocol.warm_max_ns / out.processes)
  return out
end

--- Time models at one batch size.
---@param texts string[] 'linear{64,32}' ...
---@param batch integer
---@param opt table protocol, input_shape, dtype, seed
---@param calibration table|nil
---@return table[] results one a model, as of measure.fresh
function M.results(texts, batch, opt, calibration)
  local spec = canonical().encode { texts = canonical().list(texts), batch = batch,
    shape = opt.input_shape, dtype = opt.dtype, seed = opt.seed }
  local source = { module = 'ridge.bench.fresh', spec = spec }
  return select(2, require('ridge.measure.fresh').points(source, M.protocol(opt.protocol),
    calibration))
end

--- What a fresh process times.
---@param spec string of M.results
---@return table[] list see ridge.measure.fresh
function M.candidates(spec)
  local order, list = canonical().decode(spec), {}
  local subject, suite = require 'ridge.bench.subject', require 'ridge.bench.suite'
  for i, text in ipairs(order.texts) do
    local made = subject.new(suite.module(text, order.seed), { shape = order.shape,
      batch = order.batch, dtype = order.dtype, seed = order.seed })
    list[i] = { name = tostring(i), a = { plan = made.plan, cost = made.cost } }
  end
  return list
end

return M
