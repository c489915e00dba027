-- SPDX-License-Identifier: MIT
--- What rows of a sweep say together: which points nothing beats, and how a time grows.

local blame = require 'ridge.blame'
local lower = require('ridge.show.ratio').lower
local minutes = require 'ridge.measure.minutes'

local M = {}

local function numbers(row, name)
  local v = row[name]
  if type(v) ~= 'number' or v ~= v then return nil end
  local lo, hi = minutes.ends(row, name)
  -- a time in too few passes may be anything
  local is_time = row[name .. '_p95'] ~= nil or minutes.rate_of(row, name)
  if is_time and not lo then return v, 0, math.huge end
  lo, hi = lo or v, hi or v
  lo = lower(v, lo, hi)
  return v, math.min(lo, hi), math.max(lo, hi)
end

-- Fronts -------------------------------------------------------------------------------------

--- The points that none beats in every measure by more than the intervals: what is not dominated
--- beyond doubt stays.
---@param rows table
---@param opt table min, max: columns of which less, or more, is better
---@return table front rows
function M.pareto(rows, opt)
  local measures = {}
  for sign, list in pairs { [1] = opt.min or {}, [-1] = opt.max or {} } do
    for _, name in ipairs(type(list) == 'string' and { list } or list) do
      measures[#measures + 1] = { name = name:gsub('%.', '_'), sign = sign }
    end
  end
  if #measures == 0 then
    blame.raise('pareto: neither min nor max names a column', 'EARG', 'pareto')
  end
  local points = {}
  for _, row in ipairs(rows) do
    local point = { row = row }
    for i, m in ipairs(measures) do
      local v, lo, hi = numbers(row, m.name)
      if not v then
        point = nil
        break
      end
      point[i] = m.sign > 0 and { best = lo, worst = hi } or { best = -hi, worst = -lo }
    end
    if point and row.grade ~= 'D' then points[#points + 1] = point end
  end
  local function beats(p, q)
    local apart = false
    for i = 1, #measures do
      if p[i].worst > q[i].best then
        -- not below it beyond doubt; as exact numbers they may be equal
        if not (p[i].worst == p[i].best and q[i].worst == q[i].best and p[i].best == q[i].best) then
          return false
        end
      elseif p[i].worst < q[i].best then
        apart = true
      end
    end
    return apart
  end
  local front = {}
  for _, q in ipairs(points) do
    local beaten = false
    for _, p in ipairs(points) do
      if p ~= q and beats(p, q) then
        beaten = true
        break
      end
    end
    if not beaten then front[#front + 1] = q.row end
  end
  return front
end

-- Exponents ----------------------------------------------------------------------------------

-- Least squares of log y over log x; nil below three points, or where all have the same x.
local function fit(points, from, to)
  local n, sx, sy, sxx, sxy = 0, 0, 0, 0, 0
  -- compared as they are: rounding leaves a spread that is not quite zero
  if to - from < 2 or points[from].x == points[to].x then return nil end
  for i = from, to do
    local x, y = points[i].lx, points[i].ly
    n, sx, sy, sxx, sxy = n + 1, sx + x, sy + y, sxx + x * x, sxy + x * y
  end
  local spread = sxx - sx * sx / n
  local slope = (sxy - sx * sy / n) / spread
  local base, rest = (sy - slope * sx) / n, 0
  for i = from, to do rest = rest + (points[i].ly - base - slope * points[i].lx) ^ 2 end
  return { slope = slope, rest = rest, n = n,
    err = math.sqrt(math.max(rest, 1e-12) / math.max(n - 2, 1) / spread),
    from = points[from].x, to = points[to].x }
end

-- Two power laws where they explain much more than one: the place between them, else nil.
local function break_of(points)
  local whole, best = fit(points, 1, #points), nil
  if not whole then return nil end
  for cut = 3, #points - 3 do
    local a, b = fit(points, 1, cut), fit(points, cut + 1, #points)
    -- a point on both lines belongs to the first
    if a and b and (not best or a.rest + b.rest <= best.rest + 1e-9) then
      best = { rest = a.rest + b.rest, a = a, b = b, cut = cut }
    end
  end
  -- four numbers instead of two have to be worth it, and the slopes have to differ
  if not best or best.rest > whole.rest / 4
      or math.abs(best.a.slope - best.b.slope) < 3 * (best.a.err + best.b.err) + 0.05 then
    return nil
  end
  return best
end

local LEVELS = { { 'l1d', 'L1' }, { 'l2', 'L2' }, { 'l3', 'LLC' } }

-- Which cache the bytes of a call leave between two points.
local function leaves(a, b, machine)
  for _, level in ipairs(LEVELS) do
    local size = machine[level[1]]
    if size and a and b and a <= size and b > size then return level[2] end
  end
end

--- How y grows with x: as x to the power of so much, with two standard errors; and where that
--- changes, with the cache that the bytes of a call leave there.
---@param rows table
---@param y string column
---@param x string column
---@param opt table|nil by (a column: one answer for each of its values), l1d, l2, l3 (bytes)
---@return table list each by, exponent, err, from, to, n; and at a break: at, before, after, cause
function M.exponent(rows, y, x, opt)
  opt = opt or {}
  local groups, order = {}, {}
  for _, row in ipairs(rows) do
    local vy, vx = numbers(row, y), numbers(row, x)
    if vy and vx and vy > 0 and vx > 0 and row.grade ~= 'D' then
      local key = opt.by and row[opt.by] -- which may be false
      if key == nil then key = '' end
      if not groups[key] then
        groups[key] = {}
        order[#order + 1] = key
      end
      table.insert(groups[key], { x = vx, lx = math.log(vx), ly = math.log(vy),
        bytes = row[y .. '_bytes'] })
    end
  end
  table.sort(order, function(a, b) -- numbers first
    local one, other = type(a) == 'number', type(b) == 'number'
    if one ~= other then return one end
    if one then return a < b end
    return tostring(a) < tostring(b)
  end)
  local out = {}
  for _, key in ipairs(order) do
    local points = groups[key]
    table.sort(points, function(a, b) return a.x < b.x end)
    local whole, cut = fit(points, 1, #points), break_of(points)
    if whole then
      local found = { exponent = whole.slope, err = 2 * whole.err,
        from = whole.from, to = whole.to, n = whole.n }
      if opt.by then found.by = key end
      if cut then
        local a, b = points[cut.cut], points[cut.cut + 1]
        found.at = math.sqrt(a.x * b.x)
        found.before, found.before_err = cut.a.slope, 2 * cut.a.err
        found.after, found.after_err = cut.b.slope, 2 * cut.b.err
        found.cause = leaves(a.bytes, b.bytes, opt)
      end
      out[#out + 1] = found
    end
  end
  if #out == 0 then
    blame.raise(('exponent: fewer than three points have %s and %s, or they all have one %s')
      :format(y, x, x), 'EARG', 'exponent')
  end
  return out
end

--- An exponent in words: '1.98 ± 0.03 on 512..4096, break at 448 (working set = L2)'.
---@param found table of M.exponent
---@return string text
function M.words(found)
  local text = ('%s%.2f ± %.2f on %g..%g'):format(found.by ~= nil and tostring(found.by) .. ': '
    or '', found.exponent, found.err, found.from, found.to)
  if found.at then
    text = ('%s, break at %.4g: %.2f before, %.2f after%s'):format(text, found.at, found.before,
      found.after, found.cause and (' (working set = %s)'):format(found.cause) or '')
  end
  return text
end

return M
