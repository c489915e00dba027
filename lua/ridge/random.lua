-- SPDX-License-Identifier: MIT
--- Seeds and random streams.  A draw comes from a stream with a recorded seed; nothing but
--- ridge.seed
--- touches the default one.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local blame = require 'ridge.blame'
local guard = require 'ridge.guard'

local M = {}

local function check_seed(seed, what)
  if type(seed) ~= 'number' or seed ~= math.floor(seed) or seed < 0 or seed > 2 ^ 53 then
    blame.raise(('%s: a seed is a whole number from 0 to 2^53, got %s'):format(what,
      blame.show(seed)))
  end
end

--- Raise unless this is the state of a stream.
---@param state any
---@param what string the function asking, for errors
function M.check_state(state, what)
  if type(state) ~= 'table' then
    blame.raise(('%s: the state of a stream is expected, got %s'):format(what, blame.show(state)),
      'EARG')
  end
  check_seed(state.seed, what)
  check_seed(state.offset, what)
end

local Generator = {}
Generator.__index = Generator

--- Begin anew with another seed, or say which one this stream began with.
---@param seed number|nil whole, 0 to 2^53
---@return number the seed in force
-- >> ridge.generator(7):seed(8)
function Generator:seed(seed)
  if seed ~= nil then
    check_seed(seed, 'generator:seed')
    C.rg_generator_set(self._g, seed, 0)
  end
  return tonumber(C.rg_generator_seed(self._g))
end

--- How many numbers were drawn.
---@return number
function Generator:offset()
  return tonumber(C.rg_generator_offset(self._g))
end

--- Where it stands.
---@return table state seed, offset
function Generator:state()
  return { seed = self:seed(), offset = self:offset() }
end

--- Stand where another one stood: the same numbers follow.
---@param state table as `state` gives it
---@return table self
function Generator:load_state(state)
  M.check_state(state, 'generator:load_state')
  C.rg_generator_set(self._g, state.seed, state.offset)
  return self
end

function Generator:__tostring()
  return ('generator seed %d, %d numbers drawn'):format(self:seed(), self:offset())
end

--- A random stream of its own.
---@param seed number whole, 0 to 2^53
---@return table
-- >> ridge.generator(7)
function M.generator(seed)
  check_seed(seed, 'generator')
  local slot = ffi.new('rg_generator *[1]')
  call.check(C.rg_generator_new(seed, slot))
  return setmetatable({ _g = ffi.gc(slot[0], C.rg_generator_release) }, Generator)
end

--- Called with each stream, other than the default one, that is about to be drawn from; nil: by
--- nobody (ridge.tensor.recompute, which sets them back).
M.drawn = nil

--- The C pointer of a stream that is drawn from, NULL for the default one.
---@param generator table|nil
---@param what string the function asking, for errors
---@return cdata|nil
function M.pointer(generator, what)
  if generator == nil then return nil end
  if getmetatable(generator) ~= Generator then
    blame.raise(('%s: generator is made by ridge.generator(seed)'):format(what))
  end
  if M.drawn then M.drawn(generator) end
  return generator._g
end

--- The default stream, which ridge.seed seeds.
---@return table generator
function M.default()
  return setmetatable({ _g = C.rg_generator_default() }, Generator)
end

--- Seed the default stream, or say which seed it has.
---@param seed number|nil whole, 0 to 2^53
---@return number the seed in force
-- >> ridge.seed(42)
function M.seed(seed)
  if seed ~= nil then
    check_seed(seed, 'seed')
    C.rg_seed(seed)
  end
  return tonumber(C.rg_generator_seed(C.rg_generator_default()))
end

guard.all(Generator)

return M
