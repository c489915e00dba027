-- SPDX-License-Identifier: MIT
--- States that hold while a function runs: mixed precision, no gradients, a scope, a capture ...
-- They belong to the function, and therefore to the coroutine it runs in: one that yields inside
-- leaves none of them on for whoever resumed it, and has all of them again when it goes on. An
-- error, the end of a function around it, and the prompt put back what is still on.
--
-- A kind of state is a table of functions of an entry, whose fields it may use as it likes:
--   on(entry)    turn it on, for the first time or again; it may raise
--   off(entry)   turn it off, to be turned on again
--   stop(entry)  turn it off for good; `off` when left out

local M = {}

local raw_create, raw_resume = coroutine.create, coroutine.resume
local error, pcall, type = error, pcall, type

local top -- the innermost entry that is on; each knows the one below it

-- -- Turning on and off ---------------------------------------------------------------------

--- The kind of a state that is one value, which a function sets and returns the earlier one of.
---@param set function of the value, returns the one before
---@return table kind; the entry's `value` is what holds inside
function M.exchange(set)
  local function swap(entry) entry.value = set(entry.value) end
  return { on = swap, off = swap }
end

--- Turn a state on, until `leave` or `take`.
---@param kind table
---@param entry table its fields; it is the state's from here on
---@return table entry
function M.enter(kind, entry)
  entry.kind = kind
  kind.on(entry)
  entry.below, entry.lives = top, true
  top = entry
  return entry
end

local function pop()
  local entry = top
  top, entry.lives, entry.below = entry.below, false, nil
  return entry
end

--- Turn off for good what was turned on behind a mark, the last first.
---@param mark table|nil what `mark` said; nil: everything
function M.unwind(mark)
  while top and top ~= mark do
    local entry = pop();
    (entry.kind.stop or entry.kind.off)(entry)
  end
end

--- Where the states stand, for `unwind`.
---@return table|nil
function M.mark()
  return top
end

--- Take a state out, which the caller turns off himself; what was left on inside it is turned off.
---@param entry table
---@return boolean taken false: somebody has turned it off already
function M.take(entry)
  if not entry.lives then return false end
  M.unwind(entry)
  pop()
  return true
end

--- Turn a state off for good, and what was left on inside it; nothing where it is off already.
---@param entry table
function M.leave(entry)
  if M.take(entry) then (entry.kind.stop or entry.kind.off)(entry) end
end

local function finish(entry, ok, ...)
  M.leave(entry)
  if not ok then error((...), 0) end
  return ...
end

--- Call a function in a state.
---@param kind table
---@param entry table
---@param f function
---@param ... any its arguments
---@return any what f returns
function M.with(kind, entry, f, ...)
  return finish(M.enter(kind, entry), pcall(f, ...))
end

--- A state: the collector does not come by itself.
M.UNCOLLECTED = {
  on = function() collectgarbage 'stop' end,
  off = function() collectgarbage 'restart' end,
}

-- -- Coroutines -----------------------------------------------------------------------------

local own = {}                                      -- what every coroutine has for itself
local waiting = setmetatable({}, { __mode = 'k' })  -- by coroutine: what it has when it goes on
local NONE = {}

--- Something that every coroutine has for itself, at no cost until it is resumed.
---@param swap function of a value (nil: a fresh one) and of whether the one whose value it returns
---  has yielded or ended
function M.each_has(swap)
  own[#own + 1] = swap
end

-- What is on behind a mark goes off, to be on again: the outermost first.
local function park(mark)
  local list, n = {}, 0
  while top and top ~= mark do
    local entry = pop()
    entry.kind.off(entry)
    n = n + 1
    list[n] = entry
  end
  for i = 1, n / 2 do list[i], list[n + 1 - i] = list[n + 1 - i], list[i] end
  return list
end

-- Of what each has for itself, that of the one that runs against that of the one that does not.
local function swap_own(values, yields)
  for i = 1, #own do values[i] = own[i](values[i], yields) end
end

-- The coroutine has come back: what it left on is its own, and so is what it has for itself.
local function back(known, mark, ...)
  known.states = top ~= mark and park(mark) or nil
  swap_own(known.values, true)
  return ...
end

local function resume(co, ...)
  local known, mark = waiting[co], top
  if not known then
    known = { values = {} }
    waiting[co] = known
  end
  swap_own(known.values, false) -- first, as it is last in `back`: states find it as they left it
  for _, entry in ipairs(known.states or NONE) do
    local ok, err = pcall(M.enter, entry.kind, entry)
    if not ok then -- it waits on, until it is resumed where that can be
      park(mark)
      swap_own(known.values, true)
      return false, err
    end
  end
  known.states = nil -- they are on: one that is resumed while it runs does not turn them on again
  return back(known, mark, raw_resume(co, ...))
end

--- coroutine.resume, with the states of the coroutine on while it runs and at no other time.
---@param co thread
---@param ... any
---@return boolean ok
---@return any ...
function coroutine.resume(co, ...) -- luacheck: ignore 122
  if type(co) ~= 'thread' then
    error("bad argument #1 to 'resume' (coroutine expected)", 2)
  end
  return resume(co, ...)
end

-- A text is an error at the line that called the function, as LuaJIT has it.
local function results(ok, ...)
  if ok then return ... end
  local err = ...
  error(err, type(err) == 'string' and 2 or 0)
end

--- coroutine.wrap, likewise.
---@param f function
---@return function
function coroutine.wrap(f) -- luacheck: ignore 122
  if type(f) ~= 'function' then
    error(("bad argument #1 to 'wrap' (function expected, got %s)"):format(
      f == nil and 'no value' or type(f)), 2)
  end
  local co = raw_create(f)
  return function(...)
    return results(resume(co, ...))
  end
end

return M
