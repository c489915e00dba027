-- SPDX-License-Identifier: MIT
--
-- The efficiency map: the rate of each cell as a share of the tighter measured roof, and the line
-- between cells that arithmetic holds back and cells that memory does (Williams, Waterman and
-- Patterson, 2009).

local column = require 'ridge.plot.column'
local map = require 'ridge.plot.map'

local M = { summary = 'how much of the tighter measured roof each cell reaches' }

M.OPTIONS = { x = 'column across', y = 'column upwards',
  z = { 'string', required = true, doc = 'phase' }, facet = 'a panel a value' }

--- The efficiency map.
---@param rows table with <z>_roof (percent of the roof) and <z>_bound (compute, L1, L2, LLC, DRAM)
---@param opt table checked options
---@return table figure
function M.make(rows, opt)
  local share, bound = opt.z .. '_roof', opt.z .. '_bound'
  column.require(rows, share, 'plot.efficiency')
  local inner = {}
  for name, value in pairs(opt) do inner[name] = value end
  inner.z = share
  local figure = map.compose(rows, inner, { kind = 'efficiency', share = true, better = 'higher',
    plain = true, bounds = bound, of = opt.z, label = 'of the roof',
    finding = function(cells)
      local best
      for _, cell in ipairs(cells) do -- what was disturbed is the best of nothing
        if cell.grade ~= 'D' then best = math.max(best or cell.value, cell.value) end
      end
      return best and ('The best cell reaches %.0f %% of what this machine was measured to do.')
        :format(best) or nil
    end,
    title = ('What is left to gain: %s against the measured roof'):format(
      column.about(opt.z, rows).label),
    caption = 'Cells are rates as percent of the lower of two measured ceilings: arithmetic of '
      .. 'the type, and each byte from the fastest level that can hold it; from medians of %s.' })
  figure.opt = opt
  return figure
end

return M
