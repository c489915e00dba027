-- SPDX-License-Identifier: MIT
--- Weights in i8 once, activations as they come: nothing has to be known of the data.

local blame = require 'ridge.blame'
local faster = require 'ridge.quant.faster'
local linear = require 'ridge.quant.linear'
local make = require 'ridge.tensor.make'
local nets = require 'ridge.quant.nets'
local options = require 'ridge.options'
local random = require 'ridge.random'
local report = require 'ridge.quant.report'

local M = {}

local SPEC = {
  weights = { 'string', default = 'i8', choices = { 'i8' }, doc = 'the type of weights' },
  per = { 'string', default = 'channel', choices = { 'channel', 'tensor' },
    doc = 'a scale for each output, or one for all of a layer' },
  skip = { 'table', doc = 'names of layers, or of modules, that stay as they are' },
  rows = { 'number|boolean', default = 1,
    doc = 'a layer is taken where it is measured to be no slower with so many rows; false: all' },
}

--- The rows for which layers are measured, from an option; nil for none.
---@param value number|boolean
---@param what string the function's name, for errors
---@return integer|nil
function M.rows_of(value, what)
  if value == false then return nil end
  if type(value) ~= 'number' or value % 1 ~= 0 or value < 1 then
    blame.raise(('%s: option rows is a whole number from 1, or false; got %s'):format(what,
      blame.show(value)), 'EARG')
  end
  return value
end

local function why_not(layer, skipped)
  if skipped(layer.name) then return 'named in skip' end
  if layer.why then return layer.why end
  if getmetatable(layer.module) ~= nets.Linear then
    return ('dynamic quantization is for nn.Linear and what comes into an LSTM or GRU, not for %s')
      :format(layer.class)
  end
  if layer.module.n_in > linear.MOST_IN then
    return ('sums of %d products may not fit into i32'):format(layer.module.n_in)
  end
end

local function key_of(module)
  return ('%d %d %s %s'):format(module.n_in, module.n_out, module.activation,
    tostring(module.bias ~= nil))
end

--- A copy of a net in which dense layers multiply in i8: weights are rounded now, with a scale for
--- each output, and the rows of what comes in as they come, each by its largest. What comes into an
--- LSTM or GRU is multiplied so as well; their states stay f32.
---
--- A layer is taken where paired blocks show it to be no slower with `rows` rows; the others stay
--- f32, and quant.report(q) says which and why. The net stays as it was; the copy is in evaluation
--- mode.
---@param net table module in evaluation mode
---@param opts table|nil {weights = 'i8', per = 'channel', skip = {'head'}, rows = 1}
---@return table q
-- >> local net = ridge.nn.Sequential(ridge.nn.Linear(64, 32), ridge.nn.ReLU()):eval()
-- >> return ridge.quant.dynamic(net, { rows = false })(ridge.ones(1, 64)).shape
function M.dynamic(net, opts)
  opts = options.check(SPEC, opts, 'quant.dynamic')
  nets.need(net, 'quant.dynamic')
  local rows, skipped = M.rows_of(opts.rows, 'quant.dynamic'),
    nets.skipped(net, opts.skip, 'quant.dynamic')
  local made, twin = nets.copy(net)
  local asked, list, map = faster.asked(), {}, {}
  for _, layer in ipairs(nets.layers(net)) do
    local row = { name = layer.name, class = layer.class, kind = 'f32',
      why = why_not(layer, skipped) }
    if not row.why then
      local before = twin[layer.module]
      local after = linear.Linear(before,
        { per = opts.per, name = 'quant.dynamic: ' .. layer.name })
      local found = rows and asked:compare(key_of(before), before, after,
        make.randn(rows, before.n_in, { device = before.weight.device,
          generator = random.generator(1) }))
      if not found or found.keep then
        map[before], row.kind = after, 'i8'
      else
        row.why = faster.why(found, rows)
      end
    end
    list[#list + 1] = row
  end
  if #list == 0 then
    blame.raise('quant.dynamic: the net has no layer with weights', 'EARG')
  end
  return report.attach(nets.exchange(made, map), 'dynamic', list)
end

return M
