-- SPDX-License-Identifier: MIT
--
-- The uncertainty map: half the width of each cell's interval as percent of its value; where the
-- other maps may not be trusted, and where more samples would help.

local column = require 'ridge.plot.column'
local lower = require('ridge.show.ratio').lower
local map = require 'ridge.plot.map'
local rounded = require 'ridge.plot.rounded'
local rows_of = require 'ridge.plot.rows'

local M = { summary = "half-width of each cell's interval, in percent" }

M.OPTIONS = { x = 'column across', y = 'column upwards',
  z = { 'string', required = true, doc = 'phase' }, facet = 'a panel a value' }

--- Half the width of an interval in percent of the value.
---@param row table
---@param z string
---@return number|nil percent
function M.half_width(row, z)
  local lo, hi = row[z .. '_lo'], row[z .. '_hi']
  if not (row[z] and lo and hi and row[z] ~= 0) then return nil end
  return math.abs((hi - lower(row[z], lo, hi)) / 2 / row[z]) * 100
end

-- Two digits, or all before the point: not less than it is.
local function percent(v)
  return (v < 10 and rounded.up(v, 2) or ('%d'):format(math.min(math.ceil(v), 2 ^ 53))) .. ' %'
end

--- The uncertainty map.
---@param rows table
---@param opt table checked options
---@return table figure
function M.make(rows, opt)
  column.require(rows, opt.z .. '_lo', 'plot.uncertainty')
  rows_of.check_numbers(rows, opt.z, 'plot.uncertainty')
  return map.compose(rows, opt, { kind = 'uncertainty', better = 'lower', plain = true,
    unit = 'percent', best_word = 'narrowest', label = 'half-width',
    value = function(row)
      local half = M.half_width(row, opt.z)
      if not half then return nil, nil, 'no_interval' end
      return math.max(half, 1e-3) -- of the clock's own steps: a logarithm needs something
    end,
    finding = function(cells)
      table.sort(cells, function(a, b) return a.value < b.value end)
      local n = #cells
      return n > 0 and ('Half of the %d cells with an interval are known to %s, the worst to %s.')
        :format(n, percent(cells[math.ceil(n / 2)].value), percent(cells[n].value)) or nil
    end,
    title = ('How well it is known: %s'):format(column.about(opt.z, rows).label),
    caption = 'Cells are half the width of the 95 %% confidence interval of the median, of %s.' })
end

return M
