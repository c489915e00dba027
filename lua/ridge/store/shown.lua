-- SPDX-License-Identifier: MIT
--- Rows of a database as they show at the prompt: a table, its columns in the order asked for.

local colour = require 'ridge.show.colour'
local columns = require 'ridge.show.columns'
local format = require 'ridge.store.format'
local value = require 'ridge.show.value'

local M = {}

local ROWS = 20

-- The question that rows answer: titles and units, while the rows live.
local asked = setmetatable({}, { __mode = 'k' })

local function count(rows) return ('%d row%s'):format(#rows, #rows == 1 and '' or 's') end

local function box(rows, width)
  local found, n = asked[rows], math.min(#rows, ROWS)
  if n == 0 then return colour.paint('dim', 'no rows') end
  local shown = { titles = found.titles, units = found.units, lines = {} }
  for r = 1, n do
    local line = {}
    for i, title in ipairs(found.titles) do line[i] = rows[r][title] end
    shown.lines[r] = line
  end
  local lines = {}
  for line in format.text(shown, 'table'):gmatch '[^\n]+' do
    lines[#lines + 1] = columns.cut(line, width)
  end
  lines[1] = colour.paint('dim', lines[1])
  if #rows > n then
    lines[#lines + 1] = colour.paint('dim', ('... %d rows more'):format(#rows - n))
  end
  return table.concat(lines, '\n')
end

local Rows = value.class('rows', { line = count, box = box, lines = ROWS + 2 })

--- Let rows show as a table.
---@param rows table[] keyed by title
---@param found table titles, units
---@return table[] rows
function M.rows(rows, found)
  asked[rows] = { titles = found.titles, units = found.units }
  return setmetatable(rows, Rows)
end

return M
