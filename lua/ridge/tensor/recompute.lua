-- SPDX-License-Identifier: MIT
--- Recomputation (Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016): a part of a
--- network keeps its inputs alone; the backward pass computes it once more, with the same random
--- numbers, and goes through that.
---
--- Eager, streams of random numbers are set back to where they stood before the first run. A replay
--- of a plan draws new ones, and the second run of a part those of its first one: the recorder is
--- told which draws they are (core/graph/record_draws.c).

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local backward = require 'ridge.tensor.backward'
local blame = require 'ridge.blame'
local grad = require 'ridge.tensor.grad'
local make = require('ridge.tensor.make').here
local random = require 'ridge.random'
local ref = require 'ridge.ffi.ref'
local state = require 'ridge.state'

local M = {}

--- True while a part is computed once more: what a layer counts or averages was counted already.
M.again = false

-- Inputs of no gradient (data) must not keep the part from being recorded: its parameters want one.
-- It has no elements, so that neither a call nor memory of a plan is needed where the first part
-- runs inside a capture.
local anchor

local function anchored()
  if not anchor then
    anchor = ref.outlive(make.empty(0))
    anchor:requires_grad_()
  end
  return anchor
end

-- -- Random numbers ---------------------------------------------------------------------------

local function standing(g)
  g = g or C.rg_generator_default()
  return C.rg_generator_seed(g), C.rg_generator_offset(g)
end

-- Other streams than the default one, and where they stood before a part that runs now drew from
-- them: a list of {stream, seed, offset}; `outer`: that of the part around it.
local touched

local function has(list, generator)
  for i = 1, #list do
    if list[i][1] == generator then return true end
  end
  return false
end

local function remember(generator)
  local list = touched
  while list do
    if not has(list, generator) then list[#list + 1] = { generator, standing(generator._g) } end
    list = list.outer
  end
end

-- How many calls drew in the recording that is on, and which one it is. 0: none is, -1: calls are
-- captured without one.
local number = ffi.new 'int64_t[1]'

local function recorded()
  if C.rg_capturing() == 0 then return 0, 0 end
  local n = C.rg_record_draws(number)
  local recording = tonumber(number[0])
  return n, recording == 0 and -1 or recording
end

-- The first run of a part: streams that are drawn from are remembered, and nothing is recorded for
-- gradients. One that yields and goes on may find that others drew meanwhile: what it draws then
-- does not follow what it drew before, and could not be drawn again.
local FIRST = {}

local function swap_first(entry)
  entry.grad = C.rg_grad_mode(entry.grad)
  entry.touched, touched = touched, entry.touched
  random.drawn = touched and remember or nil
end

local DEFAULT, RECORDED = {}, {}

local function where(stream)
  if stream == RECORDED then return recorded() end
  return standing(stream._g)
end

-- Where the default stream, the draws that are recorded and the streams of a list stand.
local function all_standing(list)
  local at = { { DEFAULT, where(DEFAULT) }, { RECORDED, where(RECORDED) } }
  for i = 1, #list do at[i + 2] = { list[i][1], where(list[i][1]) } end
  return at
end

-- Those of a list that stand elsewhere now.
local function elsewhere(list)
  local out = {}
  for _, place in ipairs(list) do
    local a, b = where(place[1])
    if a ~= place[2] or b ~= place[3] then out[#out + 1] = { place[1], a, b } end
  end
  return out
end

function FIRST.on(entry)
  swap_first(entry)
  if not entry.left then return end
  local moved = elsewhere(entry.left)
  for _, place in ipairs(entry.moved or {}) do
    moved[#moved + 1] = { place[1], where(place[1]) }
  end
  entry.moved = moved
end

function FIRST.stop(entry)
  entry.torn = entry.torn or entry.moved and #elsewhere(entry.moved) > 0
  swap_first(entry)
end

function FIRST.off(entry) -- it yields
  entry.left = all_standing(touched)
  FIRST.stop(entry)
end

-- The random numbers and the mixed precision of another time; parts may lie in parts.
local NONE = {}

local THEN = state.exchange(function(value)
  local seed, offset = standing()
  local before = { seed = seed, offset = offset, cast = C.rg_autocast_set(value.cast),
    again = M.again, streams = #value.streams > 0 and {} or NONE }
  C.rg_generator_set(C.rg_generator_default(), value.seed, value.offset)
  for i = 1, #value.streams do
    local generator, its_seed, its_offset = unpack(value.streams[i])
    before.streams[i] = { generator, standing(generator._g) }
    C.rg_generator_set(generator._g, its_seed, its_offset)
  end
  M.again = value.again
  return before
end)

-- -- Plans ------------------------------------------------------------------------------------

-- What runs is computed again: recorded nodes are marked, and repeat draws of the first run.
local REPEATED = state.exchange(function(part)
  C.rg_record_recomputed(part)
  return part
end)

-- Both passes of a part belong to the same plan, or to none.
local function check_place(past, recording)
  if not past.drew or recording == past.recording then return end
  blame.raise(recording == 0
    and 'recompute: the part was captured and its backward pass is not: a replay draws other '
    .. 'random numbers than the backward pass would; capture both'
    or 'recompute: the part ran before this capture began: a replay cannot draw its random '
    .. 'numbers again for the backward pass; capture both')
end

-- -- Both passes ------------------------------------------------------------------------------

-- Compute again from copies of the inputs and go back through that.
local function gradients(f, args, inputs, past, dout, outer)
  local _, recording = recorded()
  check_place(past, recording)
  local again, copies = { unpack(args, 1, args.n) }, {}
  local dx = { false }
  local value = { seed = past.seed, offset = past.offset, streams = past.streams, cast = past.cast,
    again = true }
  local function second(...)
    if recording < 1 then return f(...) end
    local part = ffi.new('rg_recomputed', { 1, past.first, past.last })
    return state.with(REPEATED, { value = part }, f, ...)
  end
  state.with(THEN, { value = value }, function()
    for at, x in pairs(inputs) do
      local copy = x:detach():clone()
      if past.wants[at] then copy:requires_grad_() end
      again[at], copies[at] = copy, copy
    end
    local results = grad.enable_grad(function()
      return { second(unpack(again, 1, args.n)) }
    end)
    local last
    for i = 1, #dout do
      if dout[i] and results[i].requires_grad then last = i end
    end
    for i = 1, last or 0 do
      if dout[i] and results[i].requires_grad then
        backward.run(results[i], dout[i], i < last and C.RG_BACKWARD_RETAIN or 0, nil, outer)
      end
    end
  end)
  local n = 1
  for at = 1, args.n do
    if inputs[at] then
      n = n + 1
      dx[n] = past.wants[at] and copies[at].grad or false
    end
  end
  return dx
end

--- Call a function to try it: what it drew can be drawn again, and layers count nothing.
---@param f function
---@param ... any its arguments
---@return any what f returns
function M.try(f, ...)
  local seed, offset = standing()
  local value = { seed = seed, offset = offset, streams = NONE, cast = C.rg_autocast(),
    again = true }
  return state.with(THEN, { value = value }, f, ...)
end

-- Streams that are drawn from are remembered, and stand where they stood behind it.
local UNDRAWN = {}

function UNDRAWN.on(entry)
  entry.touched, touched = touched, entry.touched
  random.drawn = touched and remember or nil
end

UNDRAWN.off = UNDRAWN.on

function UNDRAWN.stop(entry)
  UNDRAWN.on(entry)
  for _, place in ipairs(entry.streams) do
    C.rg_generator_set(place[1]._g, place[2], place[3])
  end
  C.rg_generator_set(C.rg_generator_default(), entry.seed, entry.offset)
end

--- Call a function, and let every stream of random numbers that it drew from stand behind it where
--- it stood before.
---@param f function
---@param ... any its arguments
---@return any what f returns
function M.undrawn(f, ...)
  local streams = { outer = touched }
  local seed, offset = standing()
  return state.with(UNDRAWN, { touched = streams, streams = streams, seed = seed,
    offset = offset }, f, ...)
end

--- Call a function of tensors and keep only its inputs for the backward pass, which computes it
--- again. Gradients are those of the plain call, bit for bit. Where nothing is recorded for
--- gradients it is the plain call.
---
--- Inside ridge.capture and ridge.graph both passes belong to the plan: each replay draws new
--- random numbers, and computes the function again with the same ones.
---
--- The function may write into what it made itself, not into its inputs.
---@param f function of tensors, or a module
---@param ... any its arguments; tensors among them are kept
---@return any what f returns
-- >> local net = ridge.nn.Linear(4, 4):train()
-- >> ridge.recompute(net, ridge.randn(2, 4)):sum():backward()
function M.recompute(f, ...)
  if not blame.callable(f) then
    blame.raise('recompute: a function is expected, got ' .. blame.show(f))
  end
  if not grad.recording() then return f(...) end
  local args, inputs, list, versions = { n = select('#', ...), ... }, {}, { anchored() }, {}
  local seed, offset = standing()
  local past = { seed = seed, offset = offset, streams = { outer = touched },
    cast = C.rg_autocast(), wants = {} }
  past.first, past.recording = recorded()
  for at = 1, args.n do
    if ref.is(args[at]) then
      local x = ref.need(args[at], 'recompute: argument ' .. at)
      inputs[at], list[#list + 1] = x, x
      versions[at] = C.rg_tensor_version(x._t)
      past.wants[at] = x.requires_grad
    end
  end
  local first = { grad = 0, touched = past.streams }
  local results = { state.with(FIRST, first, f, ...) }
  past.streams.outer = nil
  if first.torn then
    blame.raise('recompute: the part yielded, others drew random numbers meanwhile, and it drew '
      .. 'again: computing it again would draw other ones')
  end
  past.last = recorded()
  past.drew = select(2, standing()) ~= offset or #past.streams > 0
  if past.drew and past.recording == -1 then
    blame.raise('recompute: calls captured without a graph draw new random numbers each time, and '
      .. 'both passes of a part need the same; ridge.capture gives them these')
  end
  for at, x in pairs(inputs) do
    if C.rg_tensor_version(x._t) ~= versions[at] then
      blame.raise(('recompute: argument %d, %s, was written to: computing it again would begin '
        .. 'from other numbers; write into a copy'):format(at, x:describe()))
    end
  end
  for i, y in ipairs(results) do
    ref.need(y, 'recompute: result ' .. i)
    for _, x in pairs(inputs) do
      if y._t._storage == x._t._storage then
        results[i] = grad.no_grad(function() return y:clone() end)
      end
    end
  end
  backward.record(list, results, function(dout, pass)
    return gradients(f, args, inputs, past, dout, pass)
  end, C.RG_FUNCTION_SAVE + C.RG_FUNCTION_GOES_BACK)
  return unpack(results)
end

return M
