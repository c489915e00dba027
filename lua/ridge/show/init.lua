-- SPDX-License-Identifier: MIT
--- A tensor as text: its numbers in one format, and a footer line with what it is and how its
--- values are spread.
--
-- One format for the whole tensor. Scientific only by the largest magnitude (from 1e5 on, or below
-- 1e-3): a rule by the smallest value, or by the ratio, turns every weight matrix into e-notation.
-- More than 1000 elements show three at each edge; a matrix wider than the terminal loses its
-- middle columns; a long vector breaks into lines that begin with the position of their first
-- value.
--
-- Values come through an accessor, so that nothing here knows what a tensor is.

local colour = require 'ridge.show.colour'
local summary = require 'ridge.show.summary'

local M = {}

local THRESHOLD = 1000 -- elements; above, only edges are shown
local EDGE = 3         -- items at each edge
local GAP = '  '

---@class ridge.show.Tensor
---@field dtype string 'f32', 'i64', 'bool', ...
---@field shape integer[] sizes, {} for a scalar
---@field get (fun(flat0: integer): number|boolean)|false the value at a flat index, counted from 0;
---  false where there are more than a flat index can count
---@field exact? fun(flat0: integer): number|cdata the same with all digits, for what is shown
---@field device? string 'cpu' if not given
---@field bytes? integer bytes it holds
---@field flags? string[] words for the footer, such as 'requires_grad'
---@field stats? ridge.show.Stats if the caller has computed them; used above 2^20 elements
---@field width? integer columns, the terminal's if not given

-- -- One format for all ---------------------------------------------------------

local function finite(x) return x == x and x ~= math.huge and x ~= -math.huge end

local WHOLE = { i64 = true, i32 = true, i16 = true, i8 = true, u8 = true }

--- The format for all the values that are shown.
local function choose(dtype, values)
  if WHOLE[dtype] or dtype == 'bool' then return '%d' end
  local largest, whole = 0, true
  for _, x in ipairs(values) do
    if finite(x) then
      largest = math.max(largest, math.abs(x))
      whole = whole and x == math.floor(x)
    end
  end
  if largest >= 1e5 or (largest > 0 and largest < 1e-3) then return '%.4e' end
  if whole then return '%d.' end
  return '%.4f'
end

local function text_of(format, x, dtype)
  if dtype == 'bool' and type(x) == 'number' then return tostring(x ~= 0) end
  if type(x) == 'boolean' then return tostring(x) end
  if type(x) == 'cdata' then return (tostring(x):gsub('U?LL$', '')) end
  if x ~= x then return 'nan' end
  if not finite(x) then return x > 0 and 'inf' or '-inf' end
  if x == 0 and 1 / x < 0 and format == '%d.' then return '-0.' end -- %d knows no sign of 0
  return format:format(x)
end

-- -- Which elements ---------------------------------------------------------------

--- Positions 1..n, or both edges with false between them.
local function picked(n, edge)
  local list = {}
  if n <= 2 * edge then
    for i = 1, n do list[i] = i end
    return list
  end
  for i = 1, edge do list[i] = i end
  list[edge + 1] = false
  for i = n - edge + 1, n do list[#list + 1] = i end
  return list
end

local function count(shape)
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return n
end

--- Call f(offset, index) for each shown matrix of the leading axes; f(nil) for what is left out.
local function each_matrix(shape, edge, f)
  local outer, index = #shape - 2, {}
  local function walk(axis, offset)
    if axis > outer then return f(offset, index) end
    for _, i in ipairs(picked(shape[axis], edge)) do
      if i then
        index[axis] = i
        walk(axis + 1, offset * shape[axis] + i - 1)
      else
        f(nil)
      end
    end
  end
  walk(1, 0)
end

-- -- Layout -------------------------------------------------------------------------

--- Right-aligned, and coloured if it is no finite number.
local function cell(text, width)
  local padded = (' '):rep(width - #text) .. text
  if text:find '^-?[ni][an][nf]$' then return colour.paint('bad', padded) end
  return padded
end

--- A long or short vector: lines that begin with [position] if there are several.
local function vector(t, lines, edge)
  local positions = picked(t.shape[1], edge)
  local texts, values = {}, {}
  for _, i in ipairs(positions) do if i then values[#values + 1] = t.get(i - 1) end end
  local format, width = choose(t.dtype, values), 0
  for k, i in ipairs(positions) do
    texts[k] = i and text_of(format, t.get(i - 1), t.dtype) or '...'
    width = math.max(width, #texts[k])
  end
  local per_line = math.max(1, math.floor((t.width - 2 + #GAP) / (width + #GAP)))
  local label = 0
  if #texts > per_line then
    label = #tostring(t.shape[1]) + 3
    per_line = math.max(1, math.floor((t.width - label + #GAP) / (width + #GAP)))
  end
  for first = 1, #texts, per_line do
    local row = {}
    for k = first, math.min(first + per_line - 1, #texts) do
      row[#row + 1] = cell(texts[k], width)
    end
    local head = label == 0 and ' '
      or ('%' .. label .. 's'):format(('[%s] '):format(positions[first] or '...'))
    lines[#lines + 1] = head .. (label == 0 and ' ' or '') .. table.concat(row, GAP)
  end
end

--- The texts of a matrix, all rows of all shown matrices, in one format; elided places are '...'.
local function matrix_rows(t, base, rows, columns, format)
  local n_columns, list = t.shape[#t.shape], {}
  for _, i in ipairs(rows) do
    local row
    if i then
      row = {}
      for k, j in ipairs(columns) do
        row[k] = j and text_of(format, t.get((base + i - 1) * n_columns + j - 1), t.dtype)
          or '...'
      end
    end
    list[#list + 1] = row or false
  end
  return list
end

--- As many columns at both edges as fit into the width.
local function fitting(n, edge, cell_width, total)
  local fits = math.max(1, math.floor((total - 1) / (cell_width + #GAP)))
  local columns = picked(n, edge)
  if #columns <= fits then return columns end
  return picked(n, math.max(1, math.floor((fits - 1) / 2)))
end

--- Every value the matrices may show, for the format and the width of a cell.
local function sample(t, rows, edge)
  local values, columns = {}, picked(t.shape[#t.shape], edge)
  each_matrix(t.shape, edge, function(offset)
    if not offset then return end
    for _, i in ipairs(rows) do
      for _, j in ipairs(columns) do
        if i and j then
          local at = (offset * t.shape[#t.shape - 1] + i - 1) * t.shape[#t.shape] + j - 1
          values[#values + 1] = t.get(at)
        end
      end
    end
  end)
  return values
end

local function matrices(t, lines, edge)
  local n_rows, n_columns = t.shape[#t.shape - 1], t.shape[#t.shape]
  local rows = picked(n_rows, edge)
  local values = sample(t, rows, edge)
  local format, width = choose(t.dtype, values), 0
  for _, x in ipairs(values) do width = math.max(width, #text_of(format, x, t.dtype)) end
  local columns = fitting(n_columns, edge, width, t.width)
  each_matrix(t.shape, edge, function(offset, index)
    if not offset then
      lines[#lines + 1] = ' ...'
      return
    end
    if #t.shape > 2 then
      lines[#lines + 1] = colour.paint('dim', ('[%s, :, :]'):format(table.concat(index, ', ')))
    end
    for _, row in ipairs(matrix_rows(t, offset * n_rows, rows, columns, format)) do
      local cells = {}
      for k, text in ipairs(row or {}) do cells[k] = text == '...' and text or cell(text, width) end
      lines[#lines + 1] = row and '  ' .. table.concat(cells, GAP) or '   ...'
    end
  end)
end

--- A tensor as text: values, then the footer.
---@param t ridge.show.Tensor what it is and how to get its values
---@return string text lines without a newline at the end
function M.tensor(t)
  t.width = t.width or summary.columns()
  local footer = t
  if t.exact then t = setmetatable({ get = t.exact }, { __index = t }) end
  local lines, n = {}, count(t.shape)
  local edge = n > THRESHOLD and EDGE or math.huge
  if n == 0 then
    lines[1] = '  (empty)'
  elseif not t.get then
    lines[1] = '  ...'
  elseif #t.shape == 0 then
    local x = t.get(0)
    lines[1] = '  ' .. cell(text_of(choose(t.dtype, { type(x) == 'number' and x or 0 }), x,
      t.dtype), 0)
  elseif #t.shape == 1 then
    vector(t, lines, edge)
  else
    matrices(t, lines, edge)
  end
  lines[#lines + 1] = summary.footer(footer, n)
  return table.concat(lines, '\n')
end

return M
