-- SPDX-License-Identifier: MIT
--- What LuaJIT's profiler saw: for each tick of processor time the moment, the state of the machine
--- and the stack of Lua. The host takes them (lua/sample.c); plain luajit has nobody who does.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local plain = require 'ridge.plain'

local M = {}

ffi.cdef 'typedef struct rg_sample_tick { int64_t ns; int32_t stack, unused; } rg_sample_tick;'

local STATES = { N = 'compiled', I = 'interpreted', C = 'C', G = 'collector', J = 'compiler' }

-- -- Taking them ------------------------------------------------------------------------------

--- A state whose entry has what was taken (`parts`), while `wanted` is true.
M.SAMPLING = {}

local active = {} -- those that are sampled now: a profile may be made within another one

-- What was taken since the last time is everybody's who is there.
local function collect()
  if #active == 0 then return end
  local text, ticks, lost, untold, taken = active[1].host.sample_stop()
  local part = { text = text, ticks = ticks }
  for _, entry in ipairs(active) do
    if ticks ~= '' then entry.parts[#entry.parts + 1] = part end -- steps mostly have none
    entry.lost, entry.untold = entry.lost + lost, entry.untold + untold
    entry.taken = entry.taken or taken
  end
end

local function start(entry)
  collect()
  local ok, reason = entry.host.sample_start()
  if ok then
    active[#active + 1] = entry
  else
    entry.wanted, entry.unavailable = false, reason
  end
end

local function stop(entry)
  collect()
  for i = #active, 1, -1 do
    if active[i] == entry then table.remove(active, i) end
  end
  if #active > 0 and not entry.host.sample_start() then active = {} end
end

function M.SAMPLING.on(entry)
  if entry.wanted then start(entry) end
  entry.is_on = true
end

function M.SAMPLING.off(entry)
  if entry.wanted then stop(entry) end
  entry.is_on = false
end

--- An entry; nil and the reason where nobody can sample.
---@return table|nil entry
---@return string|nil reason
function M.new()
  local host = package.loaded['ridge.host']
  if not (host and host.sample_start) then
    return nil, 'the ridge program samples, and this is plain luajit'
  end
  if not pcall(require, 'jit.profile') then
    return nil, 'this LuaJIT was built without its profiler'
  end
  return { host = host, parts = {}, lost = 0, untold = 0, wanted = false }
end

--- Sample, or do not, from now on.
---@param entry table|nil nil: nobody samples
---@param wanted boolean
function M.want(entry, wanted)
  if not entry or entry.unavailable or entry.wanted == wanted then return end
  if not entry.is_on then
    entry.wanted = wanted
  elseif wanted then
    entry.wanted = true
    start(entry)
  else
    stop(entry)
    entry.wanted = false
  end
end

-- -- What they say ------------------------------------------------------------------------------

-- "I train.lua:12\tstep;main.lua:3\tmain.lua:0;": the state, and the frames, the innermost first:
-- where each is, and the function's name.
local function stack_of(line)
  local letter, frames = line:match '^(%a) (.*)$'
  local stack = { state = STATES[letter] or letter }
  for place, name in frames:gmatch '([^;\t]*)\t([^;]*);' do
    stack[#stack + 1] = { place = place, name = name, is_lua = place:find ':%d+$' ~= nil }
  end
  return stack
end

-- The innermost line of a stack that is not ridge's own.
local function line_of(stack)
  local first
  for _, frame in ipairs(stack) do
    if frame.is_lua then
      first = first or frame.place
      if not blame.is_own('@' .. frame.place) then return frame.place end
    end
  end
  return first or 'C'
end

--- All ticks, the oldest first: f(ns, stack) with stack as its frames { place, name, is_lua }, the
--- innermost first, and its state.
---@param entry table|nil
---@param f function
function M.each(entry, f)
  for _, part in ipairs(entry and entry.parts or {}) do
    local stacks = {}
    for line in part.text:gmatch '([^\n]*)\n' do stacks[#stacks + 1] = stack_of(line) end
    local ticks = ffi.cast('const rg_sample_tick *', part.ticks)
    for i = 0, #part.ticks / ffi.sizeof 'rg_sample_tick' - 1 do
      f(tonumber(ticks[i].ns), stacks[ticks[i].stack + 1])
    end
  end
end

--- Shares of lines and of states.
---@param entry table|nil
---@param from number|nil nanoseconds: what was before is not asked for, as its events are lost
---@return table lines { line, share }, the largest first
---@return table states share by name
---@return integer n ticks
function M.shares(entry, from)
  local lines, states, n = {}, {}, 0
  M.each(entry, function(ns, stack)
    if from and ns < from then return end
    stack.line = stack.line or line_of(stack)
    lines[stack.line] = (lines[stack.line] or 0) + 1
    states[stack.state] = (states[stack.state] or 0) + 1
    n = n + 1
  end)
  local list = {}
  for line, samples in pairs(lines) do list[#list + 1] = { line = line, share = samples / n } end
  table.sort(list, function(a, b)
    if a.share ~= b.share then return a.share > b.share end
    return a.line < b.line
  end)
  for name, samples in pairs(states) do states[name] = samples / n end
  return list, states, n
end

local function missing(n, why)
  return ('%s of Lua %s and %s not here'):format(plain.count(n, 'sample'), why,
    n == 1 and 'is' or 'are')
end

--- What is to be said of them: nil, or a sentence.
---@param entry table|nil
---@return string|nil
function M.note(entry)
  local notes = {}
  if entry and entry.lost > 0 then notes[1] = missing(entry.lost, 'had no room') end
  if entry and entry.untold > 0 then
    notes[#notes + 1] = missing(entry.untold, 'came that LuaJIT never mentioned')
  end
  if entry and entry.taken then
    notes[#notes + 1] = "LuaJIT's profiler was used by somebody else: later samples of Lua are "
      .. 'not here'
  end
  return notes[1] and table.concat(notes, '; ')
end

return M
