-- SPDX-License-Identifier: MIT
--- Calls of modules as ranges, while somebody wants to know of them: a profile, a timeline, or a
--- capture, whose steps remember the module they came from.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local guard = require 'ridge.guard'
local state = require 'ridge.state'

--- on: does anybody want to know? Who calls a module asks this first. heard: nil, or called with
--- the path, the module and its arguments at each call; with a path and nil for a part of the
--- module being called that is none itself. met: see MET.
local M = { on = false, heard = nil, met = nil }

local wanted = 0

local function want(n)
  wanted = wanted + n
  M.on = wanted > 0
end

--- A state: somebody does (ridge.state).
M.WANTED = { on = function() want(1) end, off = function() want(-1) end }

--- A state: what hears of calls of modules.
M.HEARD = state.exchange(function(heard)
  local before = M.heard
  M.heard = heard
  return before
end)

--- A state: what meets whatever a section is of, losses and trainers. Called with a name, a
--- function and what that is given: a loader, a trainer's batch, a loss, an optimizer.
M.MET = state.exchange(function(met)
  local before = M.met
  M.met = met
  return before
end)

-- -- Paths ------------------------------------------------------------------------------------

local stack, depth = {}, 0 -- {module =, found =, range =}: those called, outermost first

--- The name of a range in what a coroutine has open while it waits: that is the time of others.
M.YIELD = '(yield)'

-- The yield of the coroutine that runs, where somebody hears a range that it has open.
local function yield()
  local now = ffi.new 'rg_place'
  C.rg_place_swap(now)
  local is_heard = now.parent >= 0
  C.rg_place_swap(now)
  if not is_heard then return nil end
  local at = { before = ffi.new 'rg_place' }
  at.range = C.rg_range_begin(M.YIELD, 0, at.before)
  return at
end

state.each_has(function(calls, yields) -- each coroutine is in calls of its own
  local before = { stack = stack, depth = depth, yield = yields and yield() or nil,
    place = calls and calls.place or ffi.new('rg_place', { -1, nil, nil, -1 }) }
  stack, depth = calls and calls.stack or {}, calls and calls.depth or 0
  C.rg_place_swap(before.place)
  if calls and calls.yield then C.rg_range_end(calls.yield.range, calls.yield.before) end
  return before
end)

-- Where parts stand in the list of a module, by module; and the ways (below) to what is further
-- below, by module. What is found once is not searched for again: a search for each part at its
-- first call would take as long as the square of how many there are. The keys are weak and the
-- values know no module, so that none is held; whoever looks makes sure that it is still true.
local places, ways = setmetatable({}, { __mode = 'k' }), setmetatable({}, { __mode = 'k' })

local NONE = {}

local function weak(by_module, module)
  local list = setmetatable({}, { __mode = 'k' })
  by_module[module] = list
  return list
end

-- The number of a module among the parts of another one; nil where it is none.
local function place_of(parent, module)
  local children, list = parent.children or NONE, places[parent]
  local at = list and list[module]
  local child = at and children[at]
  if child and child.module == module then return at end
  for i = 1, #children do
    if children[i].module == module then
      list = weak(places, parent)
      for k = #children, 1, -1 do list[children[k].module] = k end
      return i
    end
  end
end

local function is_below(parent, module)
  local children = parent.children or NONE
  for i = 1, #children do
    if children[i].module == module then return true end
  end
  for i = 1, #children do
    if is_below(children[i].module, module) then return true end
  end
  return false
end

-- A way is the numbers and names of parts that lead to a module. Of several, one to a part of the
-- module itself comes before others, then one through a part that stands before others.
local function add_ways(list, module, way, met)
  if met[module] then return end
  met[module] = true
  local children = module.children or NONE
  local function own(i)
    local longer = { names = { unpack(way.names) }, unpack(way) }
    longer[#longer + 1], longer.names[#way + 1] = i, children[i].name
    return longer
  end
  for i = 1, #children do
    local part = children[i].module
    list[part] = list[part] or own(i)
  end
  for i = 1, #children do
    local part = children[i].module
    if not met[part] and #(part.children or NONE) > 0 then add_ways(list, part, own(i), met) end
  end
end

-- Does a way still lead from a module to another one?
local function leads(parent, way, module)
  local at = parent
  for k = 1, #way do
    local child = (at.children or NONE)[way[k]]
    if not child or child.name ~= way.names[k] then return false end
    at = child.module
  end
  return at == module
end

-- The name of a module below another one, "3.mlp", and its number where it is a part of that one;
-- nil where it is not below.
local function name_below(parent, module)
  local at = place_of(parent, module)
  if at then return parent.children[at].name, at end
  local way = ways[parent] and ways[parent][module]
  if not (way and leads(parent, way, module)) then
    if not is_below(parent, module) then return nil end
    add_ways(weak(ways, parent), parent, { names = {} }, {})
    way = ways[parent][module]
  end
  return table.concat(way.names, '.')
end

-- What was found of a module last: where it stands in the one above, whose path that has, and its
-- own path. It knows no module, so that it holds none.
local known = setmetatable({}, { __mode = 'k' })
local outermost = {} -- by class

-- Texts that the core keeps, so that none is looked up where a range begins: names of sections.
local texts = {}

local function text_of(name)
  local text = texts[name]
  if not text then
    text = C.rg_range_name(name)
    texts[name] = text
  end
  return text
end

-- The outermost module goes by its class, those within it by their names from there.
local function find(module, above)
  local class = getmetatable(module).__name
  if not above then
    local found = { at = 0, above = '', path = class, prefix = '', text = C.rg_range_name(class) }
    outermost[class] = found
    return found
  end
  local prefix = above.found.prefix
  local name, at = name_below(above.module, module)
  local found = { at = at or 0, name = at and name, above = prefix,
    path = prefix .. (name or class) }
  found.prefix, found.text = found.path .. '.', C.rg_range_name(found.path)
  known[module] = found.at > 0 and found or nil
  return found
end

-- What is known of a module where it is called, if it stands where it stood.
local function known_of(module, above)
  if not above then return outermost[getmetatable(module).__name] end
  local found = known[module]
  if not found or found.above ~= above.found.prefix then return nil end
  local children = above.module.children
  local child = children and children[found.at]
  if not child or child.name ~= found.name then return nil end
  local net = child.net -- whose child asks it for its module (nn/sequential.lua): so is it here
  return (net and net[child.at] or child.module) == module and found or nil
end

--- Is the module being called in no other one?
---@return boolean
function M.is_outermost() return depth == 1 end

--- The path of what has a name in the module being called.
---@param name string
---@return string
function M.path(name)
  return (stack[depth] and stack[depth].found.prefix or '') .. name
end

-- -- Ranges -----------------------------------------------------------------------------------

local Place, Range = ffi.typeof 'rg_place', ffi.typeof 'rg_range'

-- These calls are mostly interpreted: what surrounds them passes any number of values on, which is
-- not compiled. There a function at hand spares the search for it in the library, and each
-- argument and result costs some ten nanoseconds.
local range_enter, range_leave = C.rg_range_enter, C.rg_range_leave

-- End calls that an error left, down to a depth: those within that one.
local function end_left(to)
  for i = depth, to + 1, -1 do
    local entry = stack[i]
    if entry.module then range_leave(entry.range) end
    entry.module = nil
  end
  depth = to
end

local function finish(entry, ...)
  local at = entry.at
  if depth > at then end_left(at) end
  depth, entry.module = at - 1, nil -- it holds no module behind its call
  range_leave(entry.range)
  return ...
end

-- Calls of modules that are under way in this coroutine, by the stack of Lua.
local function living()
  local n, level = 0, 3 -- behind the call that asks
  while true do
    local info = debug.getinfo(level, 'f')
    if not info then return n end
    if info.func == M.call or info.func == M.call_one then n = n + 1 end
    level = level + 1
  end
end

-- Where a module is called that is not known there. A forward that catches what a part of it raises
-- goes on with that part at the top of our stack: what is none of its parts is looked at twice.
local function settle(at, module)
  if at > 0 and not name_below(stack[at].module, module) then
    local lives = living() - 1
    if lives < at then end_left(lives) end
  end
  return depth
end

-- A module's range is about to begin: its entry.
local function begin(module)
  local found = known_of(module, stack[depth])
  if not found then
    local at = settle(depth, module)
    found = known_of(module, stack[at]) or find(module, stack[at])
  end
  local at = depth + 1
  local entry = stack[at]
  if not entry then -- of one depth one after the other
    entry = { range = Range(), at = at }
    entry.range.module = 1
    stack[at] = entry
  end
  depth, entry.module = at, module
  if entry.found ~= found then
    entry.found, entry.range.name = found, found.text
  end
  return entry
end

--- Call a module inside a range. Only the outermost has a border that errors are caught at: one
--- for each would keep all that lies within from being compiled.
---@param f function
---@param ended function called with what pcall would give for the outermost one; gives its results
---@param module table
---@param ... any the module's arguments
---@return any ...
function M.call(f, ended, module, ...)
  local entry = begin(module)
  if M.heard then M.heard(entry.found.path, module, ...) end
  range_enter(entry.range)
  if entry.at > 1 then return finish(entry, f(module, ...)) end
  return ended(finish(entry, xpcall(f, guard.handler, module, ...)))
end

--- The same with one argument, as most calls have it: what begins within it is compiled, too.
---@param f function
---@param ended function
---@param module table
---@param x any
---@return any ...
function M.call_one(f, ended, module, x)
  local entry = begin(module)
  if M.heard then M.heard(entry.found.path, module, x) end
  range_enter(entry.range)
  if entry.at > 1 then return finish(entry, f(module, x)) end
  return ended(finish(entry, xpcall(f, guard.handler, module, x)))
end

--- A state: a range with a name (ridge.state); the entry's `name`.  With `module` it is the path of
--- a part of a module. It stays open while its coroutine waits, and that is not its time.
M.RANGE = {
  on = function(entry)
    if entry.before then return end
    entry.before = Place()
    if entry.module and M.heard then M.heard(entry.name, nil) end
    entry.range = C.rg_range_begin(entry.name, entry.module and 1 or 0, entry.before)
  end,
  off = function() end,
  stop = function(entry) C.rg_range_end(entry.range, entry.before) end,
}

local spare, free = {}, 0 -- ranges that no section has

local function ended(range, ok, ...)
  range_leave(range)
  free = free + 1
  spare[free] = range
  if not ok then error((...), 0) end
  return ...
end

--- Call a function in a section with a name, where somebody wants to know of it.
---@param name string data_loading, forward, loss_computation, backward, optimizer_step
---@param f function
---@param ... any its arguments
---@return any what f returns
function M.section(name, f, ...)
  if not M.on then return f(...) end
  if M.met then M.met(name, f, ...) end
  local range = spare[free]
  if range then free = free - 1 else range = Range() end
  range.name = text_of(name)
  range_enter(range)
  return ended(range, pcall(f, ...))
end

return M
