-- SPDX-License-Identifier: MIT
local inspect = require 'ridge.repl.inspect'
local show = inspect.value

describe('the inspector', function()
  it('shows lists and sorted keys in one line where they fit', function()
    assert.equal("{ 1, 2, a = 'x', b = true }", show { 1, 2, b = true, a = 'x' })
    assert.equal('{}', show {})
    assert.equal("{ [1.5] = 2, ['end'] = 1 }", show { ['end'] = 1, [1.5] = 2 })
  end)

  it('breaks what is too wide', function()
    local text = show({ a = ('x'):rep(40), b = ('y'):rep(40) }, { width = 60 })
    assert.equal("{\n  a = '" .. ('x'):rep(40) .. "',\n  b = '" .. ('y'):rep(40) .. "',\n}", text)
  end)

  it('marks cycles and stops at the depth', function()
    local t = { name = 'x' }
    t.self = t
    assert.equal("{ name = 'x', self = <cycle> }", show(t))
    assert.equal('{ { { { {...} } } } }', show { { { { { 1 } } } } })
    local shared = { 1 }
    assert.equal('{ { 1 }, { 1 } }', show { shared, shared })
  end)

  it('stops at the number of items', function()
    local t = {}
    for i = 1, 1000 do t[i] = i end
    assert.truthy(show(t, { items = 10 }):find('9, 10, ... 990 more }', 1, true))
    -- of those with names, too
    assert.equal('{ 5, 6, a = 1, b = 2, ... 3 more }',
      show({ 5, 6, a = 1, b = 2, c = 3, d = 4, e = 5 }, { items = 4 }))
  end)

  it('quotes strings unless bare', function()
    assert.equal("'a\\nb\\'c\\\\'", show "a\nb'c\\")
    assert.equal("a\nb", show("a\nb", { bare = true }))
  end)

  it('never calls __index, and survives a failing __tostring', function()
    local t = setmetatable({ x = 1 }, {
      __index = function() error 'called' end, __tostring = function() error 'called' end,
    })
    assert.equal('{ x = 1 }', show(t))
  end)

  it('uses __tostring, of a nested value only the last line', function()
    local t = setmetatable({}, { __tostring = function() return 'many\nlines' end })
    assert.equal('many\nlines', show(t))
    assert.equal('{ lines }', show { t })
  end)

  it('names functions by their place', function()
    assert.truthy(show(inspect.value):find 'function: .*ridge/repl/inspect.lua:%d+')
  end)

  it('shows 64-bit integers and other cdata', function()
    assert.equal('5LL', show(5LL))
    assert.equal('{ 5ULL }', show { 5ULL })
  end)
end)
