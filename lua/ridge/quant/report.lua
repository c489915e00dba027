-- SPDX-License-Identifier: MIT
--- What was quantized of a net, and what was not, and why.

local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
local columns = require 'ridge.show.columns'

local M = {}

local Report = {}
Report.__index = Report

-- A quantized net stays in evaluation mode: training it would move what was rounded.
local function refuse(self, on)
  if on == false then return getmetatable(self).train(self, false) end
  blame.raise('quant: a quantized net is not trained: quant.prepare(net) trains with rounding, and '
    .. 'quant.convert makes the quantized net of that', 'EARG')
end

--- Let a net refuse training mode.
---@param net table
---@return table net
function M.keep_evaluating(net)
  rawset(net, 'train', refuse)
  return net
end

-- What becomes of pruned weights in fewer bits, or nil.
local function zeros_note(net, rows)
  local pruned, taken = rawget(net, '_prune'), false
  for _, row in ipairs(rows) do taken = taken or row.kind == 'i8' or row.kind:find '^w%d' ~= nil end
  local pattern = type(pruned) == 'table' and pruned.pattern
  if not pattern or not taken or pattern == 'row' or pattern == 'filter' then return nil end
  return ('zeros of pattern %s stay 0, and are stored and multiplied like other numbers: there are '
    .. 'no sparse products in fewer bits'):format(pattern)
end

--- Note on a net what was made of its layers.
---@param net table
---@param method string 'dynamic', ...
---@param rows table[] {name, class, kind, why, ...}
---@param notes table|nil lines of text
---@return table net
function M.attach(net, method, rows, notes)
  notes = notes or {}
  notes[#notes + 1] = zeros_note(net, rows)
  rawset(net, '_quant', { method = method, rows = rows, notes = notes })
  return M.keep_evaluating(net)
end

--- What quant made of a net: a row a layer with weights.
---@param net table a quantized net
---@return table report method, layers {name, class, kind ('i8', 'f32', 'bf16', 'w4' ...), why},
---  notes; print()
-- >> local net = ridge.nn.Sequential(ridge.nn.Linear(8, 4)):eval()
-- >> return ridge.quant.report(ridge.quant.dynamic(net, { rows = false }))
function M.report(net)
  local about = type(net) == 'table' and rawget(net, '_quant')
  if not about then
    blame.raise(('quant.report: a quantized net is expected, got %s'):format(blame.show(net)),
      'EARG')
  end
  return setmetatable({ method = about.method, layers = about.rows, notes = about.notes }, Report)
end

function Report:__tostring()
  local rows, left = {}, 0
  for i, row in ipairs(self.layers) do
    rows[i] = { row.name, row.class, row.kind }
    if row.why then left = left + 1 end
  end
  local lines = { ('quant.%s: %d of %d layers with weights'):format(self.method,
    #self.layers - left, #self.layers) }
  if #rows > 0 then lines[2] = columns.text({ 'layer', 'class', 'type' }, rows) end
  for _, row in ipairs(self.layers) do
    if row.why then lines[#lines + 1] = ('%s: %s'):format(row.name, row.why) end
  end
  for _, note in ipairs(self.notes) do lines[#lines + 1] = note end
  return table.concat(lines, '\n')
end

--- Print it.
function Report:print() print(tostring(self)) end

guard.result(Report)

return M
