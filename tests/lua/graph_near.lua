-- SPDX-License-Identifier: MIT
--- Random functions behind passes, of which some round elsewhere. What such a pass may change is
--- told from a mistake by how far the function itself goes when what its steps make is moved by a
--- millionth: a floor or a sign somewhere makes much of little, a mistake is much by itself. Where
--- there is nan, it is moved to some number besides: some passes say that they do that.
local ffi = require 'ffi'
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local functions = require 'tests.lua.graph_functions'
local seeded = require 'tests.lua.seeded'

local M = {}

M.NEAR = 1e-6 -- of the largest number of a tensor
M.CLAIMED = 1e-5 -- the furthest that passes say of themselves
local TIMES = 10 -- as far as moved runs go
local RUNS = 3 -- of them
local HALVES = 2 ^ -5 -- where half types are computed in: a pass may round once, not twice
local MOST = 1e-2 -- where these go further, nothing is said
local STEPS = 2 ^ 16 -- of drawn numbers
local OF_HALF = { f16 = 2 ^ -11, bf16 = 2 ^ -8 }
local FLOATS = { f16 = true, bf16 = true, f32 = true, f64 = true }

-- -- Numbers ---------------------------------------------------------------------------------

-- The elements of a tensor, at, and what holds them.
local function doubles(x)
  local whole = x:detach():to('f64'):contiguous()
  return { at = ffi.cast('const double *', whole._t._data), holds = whole, n = x.count }
end

local function is_finite(v) return v - v == 0 end

local function largest(values)
  local most = 0
  for i = 0, values.n - 1 do
    local v = math.abs(values.at[i])
    if is_finite(v) and v > most then most = v end
  end
  return most
end

-- What moves a tensor: numbers of floats that are no whole ones, of memory that is new. of_nan:
-- nan, too.
local function mover(seed, of_nan)
  local draw = seeded(seed)
  return function(y, pool)
    if not FLOATS[y.dtype] or y.count == 0 then return y end
    for _, x in ipairs(pool) do
      if x:same_storage(y) then return y end
    end
    local values = doubles(y)
    local numbers = false
    local by = ridge.zeros(y.count, { dtype = 'f64' })
    local at = ffi.cast('double *', by._t._data)
    local scale = (y.dtype == 'f64' and 1e-13 or 1e-6) * largest(values)
    for i = 0, y.count - 1 do
      local v = values.at[i]
      if is_finite(v) and (v ~= math.floor(v) or math.abs(v) > 1e4) then
        local step = OF_HALF[y.dtype] and OF_HALF[y.dtype] * math.abs(v) or scale
        at[i] = step * (draw(STEPS) / STEPS * 2 - 1)
      elseif v ~= v and of_nan then
        at[i] = draw(STEPS) / STEPS
        numbers = true
      end
    end
    by = by:reshape(unpack(y.shape)):to(y.dtype)
    return numbers and ridge.where(y:isnan(), by, y + by) or y + by
  end
end

--- How far one tensor is from another of its shape, in parts of the largest number.
---@param want Tensor
---@param got Tensor
---@return number huge where finite numbers are not, or infinite ones and nan are others
---@return boolean gains a number stands where nan stood, and that is all that is huge
function M.distance(want, got)
  if want.dtype ~= got.dtype or want.count ~= got.count then return math.huge, false end
  local one, other = doubles(want), doubles(got)
  local a, b = one.at, other.at
  local most, gains = 0, false
  for i = 0, want.count - 1 do
    if is_finite(a[i]) and is_finite(b[i]) then
      most = math.max(most, math.abs(a[i] - b[i]))
    elseif a[i] ~= a[i] then
      gains = gains or b[i] == b[i]
    elseif a[i] ~= b[i] then
      return math.huge, false
    end
  end
  return most == 0 and 0 or most / largest(one), gains
end

-- -- Runs ------------------------------------------------------------------------------------

local function copies(...)
  local list = bits.tensors(...)
  for i, x in ipairs(list) do list[i] = x:detach():clone() end
  return list
end

-- The function of a number as a graph, by itself.
local function recorded(seed)
  ridge.seed(seed)
  local world = functions.world(seed, { sites = true })
  ridge.seed(100)
  functions.refill(world, 0)
  ridge.seed(200)
  return ridge.graph(functions.of(world)):check()
end

-- Three rounds with other contents: the tensors behind each, {results', the world's} in one list.
local function rounds(seed, plan_of, noise)
  ridge.seed(seed)
  local world = functions.world(seed, { sites = true, noise = noise })
  local f, plan = functions.of(world), nil
  local out = {}
  for round = 0, 3 do
    ridge.seed(100 + round)
    functions.refill(world, round)
    ridge.seed(200 + round)
    local results
    if not plan_of then
      results = f()
    elseif round == 0 then
      plan = plan_of(f)
    else
      results = plan:run()
    end
    out[round] = copies(round > 0 and results or {}, functions.held(world))
  end
  return out
end

local function texts(list)
  local out = {}
  for round = 0, 3 do
    out[round] = {}
    for i, x in ipairs(list[round]) do out[round][i] = bits.of(x) end
  end
  return out
end

local RANK = { same = 0, near = 1, claimed = 2, halves = 3, moved = 4, gains = 5, open = 6,
  off = 7 }

--- A function of a number: what it gives, and how far it goes where it is moved.
local Subject = {}
Subject.__index = Subject

--- The subject of a number.
---@param seed number
---@return table subject
function M.subject(seed)
  local s = setmetatable({ seed = seed, want = rounds(seed) }, Subject)
  s.texts = texts(s.want)
  s.graph = recorded(seed)
  for _, node in ipairs(s.graph:nodes()) do
    local y = node.outputs[1]
    s.halves = s.halves or y and OF_HALF[y.dtype] ~= nil
  end
  return s
end

-- How far moved runs go from what it gives, by round and tensor.
function Subject:moved()
  if self.far then return self.far end
  self.far = {}
  for run = 1, RUNS do
    local got = rounds(self.seed, nil, mover(self.seed * 10 + run, run > 1))
    for round = 0, 3 do
      local far = self.far[round] or {}
      self.far[round] = far
      for i, x in ipairs(self.want[round]) do
        local y = got[round][i]
        local d, gains = M.distance(x, y or ridge.zeros(0))
        far[i] = math.max(far[i] or 0, gains and math.huge or d)
      end
    end
  end
  return self.far
end

--- Run it behind passes.
---@param names string[]
---@return string verdict 'idle': they change nothing; 'same': the bits; 'near': to a millionth;
---  'claimed': to 1e-5; 'halves': to 1/32 where half types are computed in; 'moved': no further
---  than ten times what moving gives; 'open': moving goes so far that nothing is said; 'gains': a
---  number for nan; 'off'
---@return number distance the largest that was judged
---@return string|nil where it is off
function Subject:behind(names)
  if #names > 0 and self.graph:optimize(names):same(self.graph) then return 'idle', 0 end
  local got = rounds(self.seed, function(f)
    return ridge.graph(f):optimize(names):check():plan()
  end)
  local verdict, most, where = 'same', 0, nil
  for round = 0, 3 do
    if #got[round] ~= #self.want[round] then return 'off', math.huge, 'other results' end
    for i, x in ipairs(self.want[round]) do
      if bits.of(got[round][i]) ~= self.texts[round][i] then
        local d, gains = M.distance(x, got[round][i])
        local one = d <= M.NEAR and 'near' or d <= M.CLAIMED and 'claimed' or nil
        if not one or gains then
          local far = self:moved()[round][i]
          one = far > MOST and 'open' or d <= TIMES * far + M.CLAIMED
            and (gains and 'gains' or 'moved')
            or self.halves and d <= HALVES and 'halves' or 'off'
        end
        if one ~= 'open' and is_finite(d) then most = math.max(most, d) end
        if RANK[one] > RANK[verdict] then
          verdict = one
          where = ('round %d, tensor %d: off by %g'):format(round, i, d)
        end
      end
    end
  end
  return verdict, most, where
end

return M
