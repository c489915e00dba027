-- SPDX-License-Identifier: MIT
--- Do two candidates compute the same?  A fast wrong kernel is no candidate.

local M = {}

-- Relative to the size of the result: rounding of long sums in each type, with room; of what is
-- only stored, its last place.
local TOLERANCE = { f64 = 1e-9, f32 = 1e-3, f16 = 3e-2, bf16 = 6e-2, f8e4m3 = 0.125,
  f8e5m2 = 0.25 }

local function is_tensor(value)
  return require('ridge').is_tensor(value)
end

local function shape_of(x) return table.concat(x.shape, ' x ') end

-- Distance of two tensors over the size of the first; exact types: 0 or 1.
local function distance(a, b)
  local ra, rb = a:to 'f64', b:to 'f64'
  local size, off = ra:norm():item(), (ra - rb):norm():item()
  if off == 0 then return 0 end
  return off / (size > 0 and size or 1)
end

local function tolerance_of(a, b, given)
  if given then return given end
  return math.max(TOLERANCE[a.dtype] or 0, TOLERANCE[b.dtype] or 0)
end

local function compare_one(i, a, b, given)
  if type(a) == 'number' and type(b) == 'number' then
    local off = math.abs(a - b)
    if off <= (given or TOLERANCE.f32) * math.max(math.abs(a), 1e-300) then return nil end
    return ('result %d is %.9g for a and %.9g for b'):format(i, a, b)
  end
  if not (is_tensor(a) and is_tensor(b)) then
    return ('result %d is a %s for a and a %s for b, which nobody can compare'):format(i, type(a),
      type(b))
  end
  if shape_of(a) ~= shape_of(b) then
    return ('result %d is %s for a and %s for b'):format(i, shape_of(a), shape_of(b))
  end
  local off, limit = distance(a, b), tolerance_of(a, b, given)
  if off <= limit then return nil end   -- false for NaN too
  return ('result %d of b is off by %.2g of the size of a (at most %.2g is rounding)'):format(i,
    off, limit)
end

--- Compare what two candidates return.
---@param a table           results of the first, with n
---@param b table
---@param tolerance number|nil  relative; by the element types when left out
---@return string|nil why   why they do not agree; nil when they do
function M.differ(a, b, tolerance)
  if a.n == 0 and b.n == 0 then
    return 'a and b return nothing that could be compared: return the result from the captured '
      .. 'function'
  end
  if a.n ~= b.n then return ('a returns %d results and b %d'):format(a.n, b.n) end
  for i = 1, a.n do
    local why = compare_one(i, a[i], b[i], tolerance)
    if why then return why end
  end
end

local function pack(...) return { n = select('#', ...), ... } end

--- What a candidate returns when it is run once.
---@param candidate table|function  a plan, a function, or another program (measure.external)
---@return table results  with n
function M.results(candidate)
  if type(candidate) == 'function' then return pack(candidate()) end
  if candidate.is_external then return candidate.results() end
  return pack(candidate:run(1))
end

return M
