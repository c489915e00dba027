-- SPDX-License-Identifier: MIT
--- Names of parameters in graphs: those that a module has for them, "conv1.weight". Where several
--- modules that are parts of no other one have the same, each of these is named as the function
--- calls it (its upvalue, or the field of one), else by its class: "linear.weight",
--- "linear_2.weight".

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local mode = require 'ridge.tensor.mode'

local M = {}

local function is_module(value)
  return type(value) == 'table' and type(rawget(value, 'children')) == 'table'
    and type(rawget(value, 'params')) == 'table' and getmetatable(value) ~= nil
end

-- Those that are parts of no other one, in the order of their first calls.
local function roots_of(modules)
  local below, visited, roots = {}, {}, {}
  local function visit(module)
    if visited[module] then return end
    visited[module] = true
    for _, child in ipairs(module.children) do
      below[child.module] = true
      visit(child.module)
    end
  end
  for _, module in ipairs(modules) do visit(module) end
  for _, module in ipairs(modules) do
    if not below[module] then roots[#roots + 1] = module end
  end
  return roots
end

-- -- What a function calls its modules ---------------------------------------------------------

local look -- at a value under a name

-- Modules alone are sorted: the table may be somebody's data.
local function look_at_fields(names, list, prefix)
  local keys = {}
  for key, value in next, list do
    if (type(key) == 'string' or type(key) == 'number') and is_module(value) then
      keys[#keys + 1] = key
    end
  end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do
    look(names, rawget(list, key), prefix .. tostring(key), false)
  end
end

function look(names, value, name, deeper)
  if is_module(value) then
    if names[value] then return end
    names[value] = name
    for _, child in ipairs(value.children) do
      look(names, child.module, name .. '.' .. child.name, false)
    end
    look_at_fields(names, value, name .. '.') -- what it keeps without making it a part
  elseif deeper and type(value) == 'table' and not getmetatable(value) then
    look_at_fields(names, value, name .. '.')
  end
end

-- Names of the modules among the globals of a function, as at the prompt; sorted.
local function globals_of(f)
  local keys = {}
  for key, value in next, getfenv(f) do
    if type(key) == 'string' and is_module(value) then keys[#keys + 1] = key end
  end
  table.sort(keys)
  return keys
end

-- Names by module, of what one of these is or reads: functions of the user's, and modules.
local function names_in(...)
  local names = {}
  for i = 1, select('#', ...) do
    local f = select(i, ...)
    if is_module(f) then
      look_at_fields(names, f, '')
    elseif type(f) == 'function' and not blame.is_own(debug.getinfo(f, 'S').source) then
      local at = 1
      local name, value = debug.getupvalue(f, at)
      while name do
        if name ~= '' then look(names, value, name, true) end -- '': its chunk was stripped
        at = at + 1
        name, value = debug.getupvalue(f, at)
      end
      for _, key in ipairs(globals_of(f)) do look(names, getfenv(f)[key], key, false) end
    end
  end
  return names
end

-- "nn.LayerNorm": "layer_norm".
local function word_of(module)
  local class = getmetatable(module).__name:gsub('^.*%.', '')
  return (class:gsub('(%l%d*)(%u)', '%1_%2'):gsub('(%u)(%u%l)', '%1_%2'):lower())
end

-- -- Names that are one's own ------------------------------------------------------------------

local function is_same(a, b) return a.tensor._t == b.tensor._t end

local function is_of_input(name)
  return name == 'input' or name:find '^input%.%d+$' ~= nil
end

-- Which lists of places have a name that another one, or an input, has for something else; and has
-- any of them a name twice?
local function clashes_of(lists)
  local owner, of, found, twice = {}, {}, {}, false
  for i, list in ipairs(lists) do
    for _, place in ipairs(list) do
      local name = place.name
      local other = owner[name]
      if not other then
        owner[name], of[name] = place, i
        found[i] = found[i] or is_of_input(name) or nil
      elseif not is_same(other, place) then
        if of[name] ~= i then found[i], found[of[name]] = true, true end
        twice = twice or of[name] == i
      end
    end
  end
  return found, twice
end

local function is_free(taken, list, prefix)
  for _, place in ipairs(list) do
    local other = taken[prefix .. place.name]
    if other and not is_same(other, place) then return false end
  end
  return true
end

local function id_of(place) return tonumber(ffi.cast('intptr_t', place.tensor._t)) end

-- Where the search for a free number begins: all before it are taken for a list of these names,
-- unless one of its tensors has a name already.
local function first_of(tried, list, word)
  local names = {}
  for i, place in ipairs(list) do
    if tried[id_of(place)] then return 1, nil end
    names[i] = place.name
  end
  local key = word .. ' ' .. table.concat(names, ' ')
  return tried[key] or 1, key
end

-- Give a list's places their names behind a prefix; what one module calls the same is numbered.
local function take(taken, tried, list, prefix)
  for _, place in ipairs(list) do
    tried[id_of(place)] = true
    local name, n = prefix .. place.name, 1
    while taken[name] and not is_same(taken[name], place) do
      n = n + 1
      name = ('%s%s_%d'):format(prefix, place.name, n)
    end
    taken[name], place.name = place, name
  end
end

local function qualify(taken, tried, list, word)
  local n, key = first_of(tried, list, word)
  local prefix
  repeat
    prefix = n == 1 and word .. '.' or ('%s_%d.'):format(word, n)
    n = n + 1
  until is_free(taken, list, prefix)
  if key then tried[key] = n end
  take(taken, tried, list, prefix)
end

--- Places of the parameters of what was called (mode.places), each tensor under a name that no
--- other one has.
---@param modules table list in the order of their calls
---@param f function|table that called them
---@param ... any its arguments
---@return table list
function M.places(modules, f, ...)
  local roots, lists, seen = roots_of(modules), {}, {}
  for i, root in ipairs(roots) do lists[i] = mode.places(root, {}, seen) end
  local clashes, twice = clashes_of(lists)
  if next(clashes) or twice then
    local names, taken, tried = names_in(f, ...), {}, {}
    for i, list in ipairs(lists) do
      if not clashes[i] then take(taken, tried, list, '') end
    end
    for i, list in ipairs(lists) do
      if clashes[i] then qualify(taken, tried, list, names[roots[i]] or word_of(roots[i])) end
    end
  end
  local all = lists[1] or {}
  for i = 2, #lists do
    for _, place in ipairs(lists[i]) do all[#all + 1] = place end
  end
  return all
end

return M
