-- SPDX-License-Identifier: MIT
--- Which line of the caller's Lua makes a call: while this state is on, a line hook tells the core,
--- whose tape and recordings of graphs remember it.
--
-- Hooks are not called in compiled Lua: it is off meanwhile, and what was compiled before is thrown
-- away, or a function that ran often would have the line it was entered at.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local options = require 'ridge.options'
local state = require 'ridge.state'

local getinfo = debug.getinfo

local M = {}

local depth = 0 -- states that are on
local compiles  -- was the compiler on before?
local before, mask, count -- the hook that was there

-- By function: its source for people; false for those of ridge.
local sources = setmetatable({}, { __mode = 'k' })

local function source_of(f)
  local info = debug.getinfo(f, 'S')
  sources[f] = not blame.is_own(info.source) and info.short_src
  return sources[f]
end

-- Called at every line, most of them ridge's: as little as can be.
local function see(event, number)
  local f = getinfo(2, 'f').func
  local source = sources[f]
  if source == nil then source = source_of(f) end
  if source then C.rg_line_set(source .. ':' .. number) end
  -- one that counts lines goes on; a tail call, so that it finds the line where it looks for it
  if before and mask:find('l', 1, true) then return before(event, number) end
end

--- The state (ridge.state): lines are told, at first that of the call which turns it on. A
--- coroutine that waited inside comes to its line, for the hook, when it goes on.
M.TOLD = {
  on = function()
    depth = depth + 1
    if depth > 1 then return end
    compiles = jit.status()
    jit.off()
    jit.flush()
    before, mask, count = debug.gethook()
    if before == nil or type(before) == 'function' then debug.sethook(see, 'l') end -- else Ctrl-C's
    C.rg_line_set(blame.where())
  end,
  off = function()
    depth = depth - 1
    if depth > 0 then return end
    if debug.gethook() == see then debug.sethook(before, mask, count) end
    before = nil
    if compiles then jit.on() end
    C.rg_line_set(nil)
  end,
}

--- Tell lines again where something took the hook away meanwhile, as each line at the prompt does
--- when it ends.
function M.again()
  local hook, now = debug.gethook()
  if depth > 0 and (hook == nil or now == '') then debug.sethook(see, 'l') end
end

local wanted = true -- in graphs

--- Whether graphs that are recorded from now on know the line of each node, as they do unless told
--- otherwise. It takes some microseconds a node, and the recorded function runs uncompiled.
---@param on boolean
---@return boolean before
-- >> ridge.graph.lines(true)
function M.lines(on)
  if on == nil then blame.raise('graph.lines: true or false is expected', 'EARG', 'graph.lines') end
  local was = wanted
  wanted = options.flag(on, 'graph.lines', 'on')
  return was
end

--- Call a function that records a graph.
---@param f function
---@param ... any its arguments
---@return any what f returns
function M.recorded(f, ...)
  if not wanted then return f(...) end
  return state.with(M.TOLD, {}, f, ...)
end

return M
