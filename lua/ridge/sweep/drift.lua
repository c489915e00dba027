-- SPDX-License-Identifier: MIT
--- What the machine did to a sweep: its anchor is one point, measured again after every 20 others,
--- so whatever it moves by is no property of the point. Dividing each point by what the anchor took
--- just then is the map without the drift; where that leaves the points in their intervals, nothing
--- that the sweep says comes from the drift.

local minutes = require 'ridge.measure.minutes'

local M = {}

local function by_time(rows, phase)
  local list = {}
  for _, row in ipairs(rows) do
    if row[phase] and row.began then list[#list + 1] = row end
  end
  table.sort(list, function(a, b) return a.began < b.began end)
  return list
end

local function median(values)
  table.sort(values)
  local n = #values
  return n % 2 == 1 and values[(n + 1) / 2] or (values[n / 2] + values[n / 2 + 1]) / 2
end

-- How much slower than usual the machine was at a time: between two anchors as a line.
local function factor(anchors, usual, phase, began)
  local before, after
  for _, row in ipairs(anchors) do
    if row.began <= began then before = row end
    if row.began >= began and not after then after = row end
  end
  if not before or not after then return (before or after)[phase] / usual end
  local span = after.began - before.began
  local share = span > 0 and (began - before.began) / span or 0
  return (before[phase] + share * (after[phase] - before[phase])) / usual
end

local function best(rows, name)
  local found
  for _, row in ipairs(rows) do
    if row.grade ~= 'D' and (not found or row[name] < found[name]) then found = row end
  end
  return found
end

local function words(d)
  local text = ('%s of the anchor moved by %.1f %% over %d measurements, %s'):format(d.phase,
    100 * (d.ratio - 1), d.n, d.apart and 'beyond their intervals' or 'within their intervals')
  local leaves = d.moved == 1 and 'leaves its interval' or 'leave their intervals'
  local best_of = d.best_stays == nil and 'no point but those of grade D could be the fastest'
    or d.best_stays and 'the fastest stays the fastest' or 'another point is the fastest'
  return text .. ('; without it %s of %d points %s, and %s'):format(
    d.moved == 0 and 'none' or d.moved, d.points, leaves, best_of)
end

-- The numbers of a text, by pass; false where a pass has none.
local function numbers(text)
  local list = {}
  for word in tostring(text or ''):gmatch '%S+' do list[#list + 1] = tonumber(word) or false end
  return list
end

-- Anchors pass by pass, each when it was taken: their summaries lie over the whole run and cannot
-- say how it went. What a single pass is sure of is what its windows vary by.
local function single(anchors, phase)
  local out = {}
  for _, row in ipairs(anchors) do
    local meds, times = numbers(row[phase .. '_by_pass']), numbers(row.pass_began)
    if #meds < 2 or #times < #meds then
      out[#out + 1] = row
    else
      local within = math.exp(2 * (row[phase .. '_within'] or 0))
      for i, med in ipairs(meds) do
        if med and times[i] then
          out[#out + 1] = { began = times[i], [phase] = med, [phase .. '_lo'] = med / within,
            [phase .. '_hi'] = med * within }
        end
      end
    end
  end
  return out
end

-- How much slower than usual the machine was when a point was measured: in the middle of its
-- passes.
local function factor_of(anchors, usual, phase, row)
  local times, list = numbers(row.pass_began), {}
  for _, at in ipairs(times) do
    if at then list[#list + 1] = factor(anchors, usual, phase, at) end
  end
  if #list < 2 then return factor(anchors, usual, phase, row.began) end
  return median(list)
end

--- The drift of a phase, and the points without it.
---@param points table rows of the points, each with began, the phase and its interval
---@param anchors table rows of the anchor
---@param phase string
---@return table|nil drift phase, n (anchors: their single passes), ratio
---  (largest over smallest), apart (beyond their
---  intervals), points, moved (points that leave their interval), best_stays (nil where
---  all are of grade D), text, and rows, each
---  with `<phase>_drift`, the factor, and `<phase>_steady`, the time without it; nil where the
---  anchor was not measured twice
function M.of(points, anchors, phase)
  anchors = by_time(single(anchors, phase), phase)
  if #anchors < 2 then return nil end
  local values, least, most, high, low = {}, math.huge, 0, 0, math.huge
  for i, row in ipairs(anchors) do
    values[i] = row[phase]
    least, most = math.min(least, row[phase]), math.max(most, row[phase])
    local lo, hi = minutes.ends(row, phase)
    high, low = math.max(high, lo or row[phase]), math.min(low, hi or row[phase])
  end
  local d = { phase = phase, n = #anchors, ratio = most / least, apart = high > low, moved = 0,
    rows = {} }
  local usual = median(values)
  for i, row in ipairs(by_time(points, phase)) do
    local copy = {}
    for key, value in pairs(row) do copy[key] = value end
    copy[phase .. '_drift'] = factor_of(anchors, usual, phase, row)
    local steady = row[phase] / copy[phase .. '_drift']
    copy[phase .. '_steady'] = steady
    local lo, hi = minutes.ends(row, phase)
    if steady < (lo or steady) or steady > (hi or steady) then
      d.moved = d.moved + 1
    end
    d.rows[i] = copy
  end
  d.points = #d.rows
  local first, then_ = best(d.rows, phase), best(d.rows, phase .. '_steady')
  if first then d.best_stays = first == then_ end -- points of grade D have no say
  d.text = words(d)
  return d
end

--- The phases of an anchor's rows.
---@param anchors table
---@return table names
function M.phases(anchors)
  local seen, names = {}, {}
  for _, row in ipairs(anchors) do
    for key in pairs(row) do
      local name = type(key) == 'string' and key:match '^(.+)_lo$'
      -- the fast state, the ratio to a partner and cold caches are columns of a phase, not phases
      local is_column = name and (name:find '_cold$' or name:find '_quiet$' or name:find '_ratio$')
      if name and row[name] and not seen[name] and not is_column then
        seen[name] = true
        names[#names + 1] = name
      end
    end
  end
  table.sort(names)
  return names
end

return M
