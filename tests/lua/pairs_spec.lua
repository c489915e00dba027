-- SPDX-License-Identifier: MIT
-- Where LuaJIT compiles `next` wrongly, no loop over pairs is compiled; nothing else is different.

local fix = require 'ridge.pairs'

-- How many traces a program makes, in a LuaJIT of its own; `before` is run first.
local function traces(before, loop)
  local program = ([[
    local made = 0
    require('jit').attach(function(what) if what == 'stop' then made = made + 1 end end, 'trace')
    %s
    local t, sum = {}, 0
    for i = 1, 50 do t['k' .. i] = i end
    made = 0
    for round = 1, 300 do %s end
    print(made, sum)]]):format(before, loop)
  local name = os.tmpname()
  local file = assert(io.open(name, 'w'))
  file:write(program)
  file:close()
  local out = io.popen(("LUA_PATH='lua/?.lua;;' luajit '%s' 2>&1"):format(name))
  local text = out:read '*a'
  out:close()
  os.remove(name)
  local made, sum = text:match '^(%d+)\t(%d+)\n$'
  assert.is_string(made, text)
  return tonumber(made), tonumber(sum)
end

local LOOPS = {
  pairs = 'for _, v in pairs(t) do sum = sum + v end',
  next = 'local k, v = next(t) while k do sum = sum + v k, v = next(t, k) end',
  ['pairs of a table with a metatable'] =
    'for _, v in pairs(setmetatable(t, {})) do sum = sum + v end',
  ['table.foreach'] = 'local f = function(_, v) sum = sum + v end jit.off(f) table.foreach(t, f)',
}

describe('loops over pairs', function()
  it('are left alone where LuaJIT compiles them wrongly', function()
    assert.is_true(fix.affected('x64', 'LuaJIT 2.1.0-beta3'))
    assert.is_false(fix.affected('x64', 'LuaJIT 2.1.1693350652'))
    assert.is_false(fix.affected('arm64', 'LuaJIT 2.1.0-beta3'))
  end)

  local jit = require 'jit'
  for name, loop in pairs(LOOPS) do
    it('take all elements, by ' .. name, function()
      local made, sum = traces("require 'ridge.pairs'", loop)
      assert.equal(300 * 1275, sum)
      if fix.affected(jit.arch, jit.version) then assert.equal(0, made) end
    end)
  end

  it('are compiled without it, or this test could not fail', function()
    assert.is_true((traces('', LOOPS.pairs)) > 0)
  end)

  it('say the same of what is no table, at the same line', function()
    for _, wrong in ipairs { 'pairs()', 'pairs(nil)', 'for _ in pairs(3) do end', 'next(3)',
                             "next({}, 'x')" } do
      local chunk = assert(loadstring('\n' .. wrong, '=typed'))
      local before = setfenv(assert(loadstring('\n' .. wrong, '=typed')), fix.builtin)
      local _, now = pcall(chunk)
      local _, was = pcall(before)
      assert.equal(was, now)
    end
  end)
end)
