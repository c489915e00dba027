-- SPDX-License-Identifier: MIT
--- Models given as text, made again and timed in passes, each in a fresh process: where memory lies
--- and what the machine does in other minutes is then part of their intervals.

local M = {}

local function canonical() return require 'ridge.store.canonical' end

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
  local fresh = require 'ridge.measure.fresh'
  return select(2, fresh.points(source, fresh.in_passes(opt.protocol), calibration))
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
