-- SPDX-License-Identifier: MIT
-- Run by handle_spec: modules of ridge are forgotten and loaded again, as a runner of tests does
-- between two files of one process; the argument says by what kind of it. Two ridges then live in
-- one state, and neither touches what the other one holds.
package.path = 'lua/?.lua;lua/?/init.lua;' .. package.path
local kind = arg[1]
if kind == 'busted' then require 'busted.luajit'() end -- ffi.metatype and ffi.typeof that remember

local loads = 0

local function load_again()
  loads = loads + 1
  for name in pairs(package.loaded) do
    if name:find '^ridge' or kind == 'with ffi' and name == 'ffi' then
      package.loaded[name] = nil
    end
  end
  if kind == 'with ffi' then -- where ridge's declarations would get other numbers
    require('ffi').cdef(('struct forgotten_%d { int a, b; };'):format(loads))
  end
  return require 'ridge'
end

local function drop(ridge, n)
  for _ = 1, n do ridge.ones(2) end
end

local first = load_again()
local old = {}
for i = 1, 100 do old[i] = first.tensor(i) end -- slots that have no counterpart in the next one
drop(first, 1000)

local second = load_again()
assert(second ~= first)
local new = {}
for i = 1, 1000 do new[i] = second.tensor(-i) end
for i = 101, 1000 do new[i]:release() end

-- each is released by its own, and only there
for i = 1, 50 do
  old[i]:release()
  new[i]:release()
end
for i = 51, 100 do
  assert(old[i]:item() == i and new[i]:item() == -i)
end
assert((old[51] + old[52]):item() == 103 and (new[51] + new[52]):item() == -103)

for _, f in ipairs {
  function() return new[60] + old[60] end,
  function() return old[60] + new[60] end,
  function() new[60].release(old[60]) end,
  function() old[60].release(new[60]) end } do
  local ok, why = pcall(f)
  assert(not ok)
  print(why.message)
end
assert(not second.is_tensor(old[60]) and first.is_tensor(old[60]))
assert(old[60]:item() == 60 and new[60]:item() == -60)

-- what died in a forgotten ridge is found by the one in use
collectgarbage()
collectgarbage()
drop(second, 1)
collectgarbage()
local now = second.memory.stats()
assert(now.handles == 1000) -- a released handle keeps its slot
print(now.tensors)
