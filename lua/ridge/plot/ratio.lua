-- SPDX-License-Identifier: MIT
--
-- The ratio map of two kinds of points: who wins where. Colour always means that the intervals lie
-- apart; where they touch a cell is grey.

local blame = require 'ridge.blame'
local column = require 'ridge.plot.column'
local landscape = require 'ridge.plot.landscape'
local map = require 'ridge.plot.map'
local rows_of = require 'ridge.plot.rows'

local M = { summary = 'who wins where: --a dtype=f32 --b dtype=bf16' }

M.OPTIONS = { x = 'column across', y = 'column upwards',
  z = { 'string', required = true, doc = 'phase' }, a = 'the one, as dtype=f32',
  b = 'the other, as dtype=bf16', facet = 'a panel a value',
  match = 'columns in which a pair agrees, by comma; x, y and facet when left out' }

--- Columns and values from 'dtype=f32,impl=own'.
---@param text string
---@param who string for errors
---@return table where
function M.side(text, who)
  local where = {}
  for name, value in (text or ''):gmatch '([%w_]+)%s*=%s*([^,]+)' do
    value = value:match '^(.-)%s*$'
    where[name] = value == 'true' or (value ~= 'false' and (tonumber(value) or value))
  end
  if not text then
    blame.raise(who .. ': two sides are compared, a and b, written like dtype=f32', 'EARG')
  elseif not next(where) then
    blame.raise(('%s: a and b are written like dtype=f32, got %s'):format(who, blame.show(text)),
      'EARG')
  end
  return where
end

-- Rows of b by the place that they share with one of a.
local function by_place(rows, names)
  local out = {}
  for _, row in ipairs(rows) do
    local key = {}
    for i, name in ipairs(names) do key[i] = column.exact(row[name]) end
    out[table.concat(key, '\0')] = row
  end
  return out
end

-- Columns in which the two rows of a pair agree.
local function matched(opt, wa, wb)
  local names = {}
  for name in (opt.match or ''):gmatch '[^,]+' do names[#names + 1] = name end
  for _, name in ipairs(opt.match and {} or { 'x', 'y', 'facet' }) do
    local of = opt[name]
    if of and wa[of] == nil and wb[of] == nil then names[#names + 1] = of end
  end
  return names
end

--- The pairs of a ratio map: each row of a with the one of b that agrees with it.
---@param rows table
---@param opt table a, b, and match or x, y, facet
---@return table left rows of a
---@return fun(row: table): table|nil other
---@return boolean any is there a row of b?
function M.pairs(rows, opt)
  local wa, wb = M.side(opt.a, 'plot.ratio'), M.side(opt.b, 'plot.ratio')
  local names = matched(opt, wa, wb)
  local right = by_place(rows_of.select(rows, wb), names)
  return rows_of.select(rows, wa), function(row)
    local key = {}
    for i, name in ipairs(names) do key[i] = column.exact(row[name]) end
    return right[table.concat(key, '\0')]
  end, next(right) ~= nil
end

local function is_same(a, b)
  for name, value in pairs(a) do if b[name] ~= value then return false end end
  for name in pairs(b) do if a[name] == nil then return false end end
  return true
end

-- What cells are, by how many of them stood side by side in every pass.
local function caption(paired, compared)
  if paired == 0 then
    return 'Cells are ratios of medians of %s; they have a colour where the 95 %% confidence '
      .. 'intervals do not touch. Stored results, unpaired.'
  elseif paired == compared then
    return 'Cells are medians of the ratios within each pass, of %s; they have a colour where '
      .. 'their 95 %% confidence interval leaves out 1.'
  end
  return ('%d of %d cells are medians of the ratios within each pass, of %%s, and have a colour '
    .. 'where their 95 %%%% confidence interval leaves out 1; the others are ratios of medians, '
    .. 'unpaired, and have one where the 95 %%%% confidence intervals do not touch.'):format(paired,
    compared)
end

--- The ratio map.
---@param rows table
---@param opt table checked options: x, y, z, a, b, facet
---@return table figure
function M.make(rows, opt)
  local who = 'plot.ratio'
  local wa, wb = M.side(opt.a, who), M.side(opt.b, who)
  for name in pairs(wa) do column.require(rows, name, who) end
  for name in pairs(wb) do column.require(rows, name, who) end
  if is_same(wa, wb) then
    blame.raise(('%s: a and b are the same, %s'):format(who, opt.a), 'EARG')
  end
  local left, other_of, any = M.pairs(rows, opt)
  if #left == 0 or not any then
    blame.raise(('%s: no row is %s'):format(who, #left == 0 and opt.a or opt.b), 'EARG')
  end
  local counts, compared, paired = { a = 0, b = 0, open = 0 }, 0, 0
  local lower = (column.about(opt.z, rows).better or opt.better or 'lower') == 'lower'
  local function value(row)
    local other = other_of(row)
    if not (other and rows_of.measured(other) and other[opt.z]) then
      return nil, nil, other and other.state ~= 'ok' and other.state or 'missing'
    end
    local verdict = rows_of.verdict(other, row, opt.z)
    local b_wins = verdict == (lower and 'lower' or 'higher')
    local who_wins = verdict == 'open' and 'open' or b_wins and 'b' or 'a'
    counts[who_wins] = counts[who_wins] + 1
    compared = compared + 1
    paired = paired + (rows_of.paired(row, other, opt.z) and 1 or 0)
    local ratio = rows_of.ratio(row, other, opt.z)
    return lower and ratio or 1 / ratio, verdict
  end
  local inner = {}
  for name, given in pairs(opt) do inner[name] = given end
  if opt.facet and (wa[opt.facet] ~= nil or wb[opt.facet] ~= nil) then inner.facet = nil end
  local figure = map.compose(left, inner, { kind = 'ratio', ratio = true, better = 'higher',
    plain = true, value = value, label = 'ratio',
    title = ('%s against %s: how much %s'):format(opt.b, opt.a,
      lower and 'faster' or 'higher'),
    caption = function() return caption(paired, compared) end })
  figure.finding = ('%s wins in %d cell%s, %s in %d; %d %s undecided.'):format(opt.b, counts.b,
    counts.b == 1 and '' or 's', opt.a, counts.a, counts.open, counts.open == 1 and 'is' or 'are')
  figure.rows, figure.opt, figure.subtitle = rows, opt, landscape.subtitle(opt, rows)
  return figure
end

return M
