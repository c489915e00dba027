-- SPDX-License-Identifier: MIT
--- Numbers as pictures of characters: a line over positions, a field in five shades.

local M = {}

local BARS = { '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█' }
local SHADES = { ' ', '░', '▒', '▓', '█' }
local HEIGHT = 8

local function finite(x) return x == x and x ~= math.huge and x ~= -math.huge end

local function range(values)
  local low, high = math.huge, -math.huge
  for _, v in ipairs(values) do
    if finite(v) then low, high = math.min(low, v), math.max(high, v) end
  end
  return low, high
end

--- As many values as there are columns: each the mean of its finite neighbours, nan without one.
---@param values number[]
---@param columns integer
---@return number[] means
function M.thin(values, columns)
  local n, out = #values, {}
  if n <= columns then return values end
  for k = 1, columns do
    local first, last = math.floor((k - 1) * n / columns) + 1, math.floor(k * n / columns)
    local sum, used = 0, 0
    for i = first, last do
      if finite(values[i]) then -- parts: a sum may be beyond what a double holds
        sum, used = sum + values[i] / (last - first + 1), used + 1
      end
    end
    out[k] = used > 0 and sum * ((last - first + 1) / used) or 0 / 0
  end
  return out
end

--- A line over positions, the largest value on top.
---@param values number[]
---@param width integer columns of the picture with its labels
---@return string text lines without a newline at the end
function M.line(values, width)
  local low, high = range(values)
  if low > high then return '(nothing finite)' end
  local top, bottom = ('%.4g'):format(high), ('%.4g'):format(low)
  local label = math.max(#top, #bottom)
  local shown = M.thin(values, math.max(1, width - label - 2))
  local scale = high > low and (HEIGHT * #BARS - 1) / (high - low) or 0
  local lines = {}
  for row = HEIGHT, 1, -1 do
    local cells = {}
    for k, v in ipairs(shown) do
      -- eighths of a row that are filled; the smallest value has one, so that it is seen
      local filled = finite(v) and 1 + math.floor((v - low) * scale + 0.5) - (row - 1) * #BARS or 0
      cells[k] = filled <= 0 and ' ' or BARS[math.min(#BARS, filled)]
    end
    local name = row == HEIGHT and top or row == 1 and bottom or ''
    lines[#lines + 1] = (('%' .. label .. 's '):format(name) .. table.concat(cells))
      :gsub('%s+$', '')
  end
  return table.concat(lines, '\n')
end

--- A matrix in shades from its smallest to its largest value; two characters a cell.
---@param rows number[][]
---@return string text
function M.field(rows)
  local low, high = math.huge, -math.huge
  for _, row in ipairs(rows) do
    local a, b = range(row)
    low, high = math.min(low, a), math.max(high, b)
  end
  if low > high then return '(nothing finite)' end
  local lines = {}
  for i, row in ipairs(rows) do
    local cells = {}
    for k, v in ipairs(row) do
      -- halves: the difference of two values may be beyond what a double holds
      local share = high > low and (v / 2 - low / 2) / (high / 2 - low / 2) or 1
      local shade = finite(v) and SHADES[math.min(#SHADES, math.floor(share * #SHADES) + 1)] or '?'
      cells[k] = shade .. shade
    end
    lines[i] = table.concat(cells)
  end
  lines[#lines + 1] = ('%s %.4g .. %s %.4g'):format("' '", low, '█', high)
  return table.concat(lines, '\n')
end

return M
