-- SPDX-License-Identifier: MIT
--
-- The map of winners: which value of a column is best in each cell, and by how much it is ahead of
-- the next. A cell has a colour only where the best is told apart from every other; where it is not
-- a cell is grey.

local blame = require 'ridge.blame'
local column = require 'ridge.plot.column'
local landscape = require 'ridge.plot.landscape'
local map = require 'ridge.plot.map'
local rows_of = require 'ridge.plot.rows'

local M = { summary = 'which value of a column wins where: --of path' }

M.OPTIONS = { x = 'column across', y = 'column upwards',
  z = { 'string', required = true, doc = 'phase or metric' },
  of = { 'string', required = true, doc = 'column whose values compete, as path' },
  facet = 'a panel a value' }

-- One row for each value that competes, the best first; those without a number are left out.
local function ranked(by_value, z, lower)
  local list = {}
  for _, rows in pairs(by_value) do
    local measured = {}
    for _, row in ipairs(rows) do
      if rows_of.measured(row) and type(row[z]) == 'number' then measured[#measured + 1] = row end
    end
    if #measured > 0 then list[#list + 1] = rows_of.pick(measured, z, 'median') end
  end
  table.sort(list, function(a, b)
    if a[z] == b[z] then return tostring(a.trial) < tostring(b.trial) end
    return (a[z] < b[z]) == lower
  end)
  return list
end

--- Which way of a column is better, as its name or the options say.
---@param rows table
---@param opt table z, better
---@return boolean lower
local function is_lower(rows, opt)
  return (column.about(opt.z, rows).better or opt.better or 'lower') == 'lower'
end

--- The places of a map, each with one row for each value that competes there, the best first.
---@param rows table
---@param opt table x, y, z, of, facet, better
---@return table[] places in the order of the rows, each with first, any row of it, and cause, why
---  there is no more
function M.places(rows, opt)
  local places, order, lower = {}, {}, is_lower(rows, opt)
  for _, row in ipairs(rows) do
    local key = {}
    for i, name in ipairs { opt.x, opt.y, opt.facet } do key[i] = column.exact(row[name]) end
    key = table.concat(key, '\0')
    if row[opt.of] ~= nil then
      if not places[key] then
        places[key] = { first = row, cause = 'missing', by_value = {} }
        order[#order + 1] = places[key]
      end
      if not rows_of.measured(row) then places[key].cause = row.state end
      local by_value, value = places[key].by_value, tostring(row[opt.of])
      by_value[value] = by_value[value] or {}
      table.insert(by_value[value], row)
    end
  end
  for i, place in ipairs(order) do
    local list = ranked(place.by_value, opt.z, lower)
    list.first, list.cause = place.first, place.cause
    order[i] = list
  end
  return order
end

-- The best of a place beside the others: how far ahead of the next, and whether of all for certain.
local function judged(list, z, lower)
  local best, margin, open = list[1], math.huge, false
  for i = 2, #list do
    local ratio = rows_of.ratio(list[i], best, z)
    margin = math.min(margin, lower and ratio or 1 / ratio)
    open = open or rows_of.verdict(best, list[i], z) ~= (lower and 'lower' or 'higher')
  end
  return margin, open
end

--- The map of winners.
---@param rows table
---@param opt table checked options: x, y, z, of, facet
---@return table figure
function M.make(rows, opt)
  local who = 'plot.winner'
  rows_of.check(rows, who)
  for _, name in ipairs { 'x', 'y' } do
    if not opt[name] then
      blame.raise(('%s: %s is missing, the %s'):format(who, name, M.OPTIONS[name]), 'EARG')
    end
  end
  for _, name in ipairs { opt.x, opt.y, opt.of, opt.facet } do column.require(rows, name, who) end
  rows_of.check_numbers(rows, opt.z, who)
  local lower = is_lower(rows, opt)
  local names, number = {}, {}
  for i, value in ipairs(rows_of.distinct(rows, opt.of)) do
    names[i], number[tostring(value)] = tostring(value), i
  end
  if #names < 2 then
    blame.raise(('%s: %s has one value, %s; nothing competes'):format(who, opt.of,
      names[1] or 'none'), 'EARG')
  end
  local left, found, wins, undecided, alone = {}, {}, {}, 0, 0
  for i, list in ipairs(M.places(rows, opt)) do
    left[i] = list[1] or list.first
    if #list < 2 then -- nobody to be compared with: what was measured alone decides nothing
      alone = alone + #list
      found[left[i]] = { state = list.cause }
    else
      local margin, open = judged(list, opt.z, lower)
      local k = number[tostring(list[1][opt.of])]
      found[list[1]] = { margin = margin, open = open, who = k }
      if open then undecided = undecided + 1 else wins[k] = (wins[k] or 0) + 1 end
    end
  end
  local function value(row)
    local f = found[row]
    return f.margin, f.open and 'open' or 'decided', f.state, f.who
  end
  local said = {}
  for i, name in ipairs(names) do
    said[i] = ('%s %s %d'):format(name, i == 1 and 'wins in' or 'in', wins[i] or 0)
  end
  local figure = map.compose(left, opt, { kind = 'winner', names = names, better = 'higher',
    plain = true, value = value, ratio = true, all_layers = true, label = opt.of,
    best_word = 'furthest ahead',
    title = ('Which %s %s'):format(opt.of, lower and 'is fastest' or 'is highest'),
    caption = 'A cell says how far the best is ahead of the next, by %s; it has a colour where it '
      .. 'is told apart from every other, by the ratio within passes where they stood side by '
      .. 'side, else by 95 %% confidence intervals that do not touch.' })
  figure.finding = ('%s of %d cells; %d %s undecided%s.'):format(table.concat(said, ', '), #left,
    undecided, undecided == 1 and 'is' or 'are',
    alone > 0 and (', %d had one value'):format(alone) or '')
  figure.rows, figure.opt, figure.subtitle = rows, opt, landscape.subtitle(opt, rows)
  return figure
end

return M
