-- SPDX-License-Identifier: MIT
--- What busted runs before the specs (.busted names it): a file without tests fails, a filter that
--- matches nothing fails, the file that RIDGE_TEST_NOW names always has the test that runs, and a
--- rule of sorting has to be an order.

require 'ridge.pairs'
local busted = require 'busted'

local now = os.getenv 'RIDGE_TEST_NOW'
local ran, file, inside, problems = 0, nil, 0, 0

local function problem(what)
  problems = problems + 1
  io.stderr:write('\nbusted: error: ' .. what .. '\n')
end

-- Tests are counted where they are registered, before the filters leave any out: those were asked
-- to be first, so this asks later. `--list` runs no suite.
local begun = false
busted.subscribe({ 'suite', 'start' }, function()
  local function registered() inside = inside + 1; return nil, true end
  for _, kind in ipairs { 'it', 'pending' } do
    if not begun then busted.subscribe({ 'register', kind }, registered, { priority = 1 }) end
  end
  begun = true
  return nil, true
end)

-- A rule that calls an element less than itself, or two less than each other, is none: it leaves
-- the order of others to chance. Each is asked that of what it sorts. By the name of its chunk this
-- is a part of ridge: a hook (ridge.lines) takes every other line for the user's.
assert(loadstring([[
  local sort = table.sort
  function table.sort(list, before)
    for i = 1, before and math.min(#list, 64) or 0 do
      local a, b = list[i], list[i + 1]
      if before(a, a) or b ~= nil and before(a, b) and before(b, a) then
        error('a rule of sorting calls an element less than itself, or two less than each other', 2)
      end
    end
    return sort(list, before)
  end
]], '@lua/ridge/(rules of sorting, as tests/helper.lua has them)'))()

-- busted looks a global up in the environment of each block around a test before it finds Lua's,
-- which loops over elements do all the time: those stand in the place where it looks first.
local function shorten(run)
  local environment = getfenv((debug.getmetatable(run) or {}).__call or run)
  for name in ([[math string table bit ipairs pairs next type tonumber tostring select unpack error
      pcall xpcall setmetatable getmetatable rawget rawset]]):gmatch '%S+' do
    if environment ~= _G then rawset(environment, name, _G[name]) end
  end
end

busted.subscribe({ 'file', 'start' }, function(element)
  file, inside = element.name, 0
  shorten(element.run)
  return nil, true
end)

busted.subscribe({ 'file', 'end' }, function(element)
  if inside == 0 then problem('no tests in ' .. element.name) end
  return nil, true
end)

busted.subscribe({ 'test', 'start' }, function(element, parent)
  ran = ran + 1
  if now then
    local names = { element.name }
    while parent and parent.name and parent.descriptor ~= 'file' do
      table.insert(names, 1, parent.name)
      parent = busted.parent(parent)
    end
    local out = assert(io.open(now, 'w'))
    out:write(('%s: %s\n'):format(file, table.concat(names, ' ')))
    out:close()
  end
  return nil, true
end)

busted.subscribe({ 'exit' }, function()
  if begun and ran == 0 and problems == 0 then problem 'no test has run: nothing matches' end
  if problems > 0 then os.exit(1, true) end
  return nil, true
end)
