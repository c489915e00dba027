-- SPDX-License-Identifier: MIT
-- Values that say how they show: at the prompt, by print, inside tables; points and rows do.
local inspect = require 'ridge.repl.inspect'
local point = require('ridge.measure.shown').point
local ridge = require 'ridge'
local rows = require('ridge.store.shown').rows
local value = require 'ridge.show.value'

describe('a value that says how it shows', function()
  local meta = value.class('thing', {
    line = function(x) return 'a thing of ' .. x.n end,
    box = function(x, width) return ('x'):rep(width) .. '\n' .. ('line\n'):rep(x.n) end,
  })

  it('is a box at the prompt and by print, a line inside a table', function()
    local thing = setmetatable({ n = 2 }, meta)
    assert.equal('xxxxx\nline\nline', value.box(thing, 5))
    assert.equal(inspect.value(thing, { width = 80 }), tostring(thing))
    assert.equal('{ a thing of 2, b = a thing of 2 }', inspect.value { thing, b = thing })
    assert.equal(('x'):rep(7) .. '\nline\nline', inspect.value(thing, { width = 7 }))
  end)

  it('takes twelve lines at most, or as many as its class says', function()
    local _, n = value.box(setmetatable({ n = 11 }, meta), 5):gsub('\n', '')
    assert.equal(11, n)
    assert.equal('xxxxx\n' .. ('line\n'):rep(10) .. '... 2 lines more',
      value.box(setmetatable({ n = 12 }, meta), 5))
    local long = value.class('long', { lines = 3, box = function() return '1\n2\n3\n4' end })
    assert.equal('1\n2\n... 2 lines more', tostring(setmetatable({}, long)))
    assert.equal('1 ...', value.line(setmetatable({}, long)))
  end)

  it('costs a note where its class is broken', function()
    local broken = value.class('mine', { line = function() return 1 end,
      box = function() error 'no\27[31m' end })
    local x = setmetatable({}, broken)
    assert.truthy(tostring(x):find '^<mine: its __box raises: .*no')
    assert.is_nil(tostring(x):find '\27')
    assert.equal('{ <mine: its __line raises: no text but a number> }', inspect.value { x })
    assert.truthy(inspect.value(setmetatable({}, { __box = error })):find '^<table: its __box')
  end)

  it('is none of those without a class', function()
    assert.is_nil(value.box({}, 80))
    assert.is_nil(value.line(setmetatable({}, {})))
    assert.is_nil(value.box(3))
    assert.is_nil(value.box('text', 80)) -- whose metatable has an __index alone
    local own = setmetatable({}, { __tostring = function() return 'own' end })
    assert.equal('own', inspect.value(own))
  end)
end)

describe('a measured point', function()
  local function made(more)
    local p = { med = 259, ci_lo = 82, ci_hi = 1160, ci_level = 0.95, grade = 'A', flags = {},
      n = 4, inner = 4096, cache = 'warm', samples = { 250, 259, 500, 1000 }, first_ns = 10200,
      work = { flops = 144, bytes = 2590 } }
    for name, v in pairs(more or {}) do p[name] = v end
    return point(p)
  end

  -- thin spaces between numbers and units are no matter here
  local function text(p, width)
    return (value.box(p, width or 100):gsub('\226\128\175', ' '))
  end

  it('shows what it takes, how it was sampled and what it does', function()
    assert.equal('median 259 ns   95 % 82 ns .. 1.16 µs   grade A\n'
      .. '4 samples of 4096 calls, warm  ▁▁▄█  first call 10.2 µs\n'
      .. '144 FLOP, 556 MFLOP/s, 10 GB/s\nstr(_) shows every field', text(made()))
    assert.equal('{ median 259 ns [82 ns .. 1.16 µs], grade A }',
      (inspect.value({ made() }):gsub('\226\128\175', ' ')))
    assert.truthy(text(made { roof = 0.002, inner = 1, procs = 5, promises = '1 s' }):find(
      'of 1 call, warm, 5 processes  .*: 0.2 %% of the roof\n1 s\n'))
    assert.is_nil(text(made { work = {} }):find 'FLOP')
    assert.truthy(text(made { cold = made { med = 4000 } }):find('\ncold caches: median 4 µs', 1,
      true))
  end)

  it('says first what weighs most of what was wrong, and counts what does not fit', function()
    local p = made { grade = 'D', flags = { 'LUA', 'FOREIGN', 'FREQ' } }
    local describe_ = require('ridge.measure.flags').describe
    local wide = text(p, 300)
    local order = {}
    for _, name in ipairs(p.flags) do order[name] = wide:find(describe_(name).text, 1, true) end
    for _, a in ipairs(p.flags) do
      for _, b in ipairs(p.flags) do
        if describe_(a).grade > describe_(b).grade then assert.is_true(order[a] < order[b]) end
      end
    end
    assert.truthy(text(p, 60):find 'and %d more')
    for line in text(p, 60):gmatch '[^\n]+' do
      assert.is_true(#line <= 80, line) -- bars take three bytes each
    end
  end)

  it('keeps its fields, and what failed shows as a table', function()
    local p = made()
    assert.equal(259, p.med)
    assert.is_nil(rawget(p, 'box'))
    assert.is_nil(getmetatable(point { label = 'x', error = {} }))
  end)

  it('is what measuring gives', function()
    local x = ridge.ones(4, 4)
    local plan = ridge.capture(function() return x:matmul(x) end)
    local p = ridge.measure.point(plan, { budget_ns = 1e6, warm_min_ns = 1e5, warm_max_ns = 1e6,
      cache = 'warm+cold' })
    assert.truthy(text(p):find '^median .*\ncold caches: .*128 FLOP')
    assert.truthy(tostring(p.cold):find '^median ')
  end)
end)

describe('rows', function()
  local found = { titles = { 'b', 'a' }, units = { 'ns' } }
  local function made(n)
    local list = {}
    for i = 1, n do list[i] = { a = 'x' .. i, b = i } end
    return rows(list, found)
  end

  it('show as a table in the order of their columns', function()
    assert.equal('b [ns]  a\n     1  x1\n     2  x2', value.box(made(2), 80))
    assert.equal('b [...\n     1  x1', (value.box(made(1), 6):gsub('\n.*', '\n     1  x1')))
    assert.equal('{ 2 rows, { 1 row } }', (inspect.value { made(2), { made(1) } }))
    assert.equal('no rows', value.box(made(0), 80))
    local text = value.box(made(40), 80)
    assert.truthy(text:find '\n    20  x20\n%.%.%. 20 rows more$')
    assert.equal(40, #made(40))
  end)
end)
