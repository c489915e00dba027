-- SPDX-License-Identifier: MIT
local locals = require 'ridge.repl.locals'

--- Run the rewritten text and give its variables.
local function run(source)
  local env = setmetatable({}, { __index = _G })
  local chunk = assert(loadstring(locals.keep(source)))
  setfenv(chunk, env)()
  return env
end

describe('top-level local', function()
  it('stays as a variable', function()
    assert.equal(3, run('local x = 3').x)
    local env = run 'local a, b = 1, 2 local function f() return a + b end'
    assert.equal(3, env.f())
  end)

  it('without a value is declared as nil', function()
    assert.equal('a, b = nil', (locals.keep('local a, b'):gsub('^%s+', '')))
    assert.equal(2, run('local x y = 2').y)
  end)

  it('inside blocks and functions stays local', function()
    local env = run [[
      do local a = 1 end
      for i = 1, 2 do local b = i end
      if true then local c = 1 elseif false then local d = 1 else local e = 1 end
      while false do local f = 1 end
      repeat local g = 1 until g == 1
      function h() local i = 1 return i end
      t = { function() local j = 1 return j end }
      local kept = 1]]
    for _, name in ipairs { 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'i', 'j' } do
      assert.is_nil(rawget(env, name), name)
    end
    assert.equal(1, env.kept)
  end)

  it('keeps lines and columns', function()
    assert.equal('      x = 1\n      y = 2', locals.keep 'local x = 1\nlocal y = 2')
  end)

  it('is not looked for in strings and comments', function()
    local source = 'x = "local y = 1" -- local z = 1'
    assert.equal(source, locals.keep(source))
  end)
end)
