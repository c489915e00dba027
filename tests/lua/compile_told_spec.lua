-- SPDX-License-Identifier: MIT
--- What ridge.compile reports of times that are told, how often candidates run, and which kinds of
--- nodes are taken apart.

local ridge = require 'ridge'
local apart = require 'ridge.compile.apart'
local report = require 'ridge.compile.report'
local timing = require 'ridge.compile.timing'

local function of(...)
  local list, i = { ... }, 0
  return report.of { shelf = { each = function()
    return function()
      i = i + 1
      return list[i]
    end
  end } }
end

local function size(more)
  local s = { text = 'f32[2]', mode = 'default', calls = 3, cost_ms = 12, eager_ms = 3,
    recording = { ms = 1 }, made = { passes_ms = 2, emit_ms = 4, first_ms = 5, steady_ms = 2,
      same = true, names = { 'a' } } }
  for key, value in pairs(more or {}) do s[key] = value ~= 'none' and value or nil end
  return s
end

describe('the report of a compiled function', function()
  it('has times, and after how many calls they are won back', function()
    local rows = of(size())
    -- the first call would have taken 3 in any case: 9 are won back by 1 each
    assert.same({ 10, false, 1, 2, 4, 5, 2 }, { rows[1].pays_after, rows[1].paid,
      rows[1].record_ms, rows[1].passes_ms, rows[1].emit_ms, rows[1].first_ms,
      rows[1].steady_ms })
    assert.equal('f32[2]: default, same bits\n'
      .. '  record 1, passes 2, emit 4, first 5, steady 2, eager 3 ms\n'
      .. '  3 calls; it pays after 10', tostring(rows))
    assert.is_true(of(size { calls = 10 })[1].paid)
    assert.is_false(of(size { calls = 9 })[1].paid)
    assert.matches('10 calls; it has paid after 10', tostring(of(size { calls = 10 })), 1, true)
    assert.equal(1, of(size { cost_ms = 3 })[1].pays_after)
    assert.equal(1, of(size { cost_ms = 1 })[1].pays_after)
    assert.equal(2, of(size { cost_ms = 3.5 })[1].pays_after)
    assert.matches('1 call; it never pays: the plan is no faster', tostring(of(size {
      eager_ms = 2, calls = 1 })), 1, true)
    assert.matches('; nobody knows when it pays: the function was not timed', tostring(of(size {
      eager_ms = 'none' })), 1, true)
  end)

  it('has what agrees, and why a size is not compiled', function()
    local made = size().made
    made.same, made.difference = false, 1.5e-6
    assert.matches('^f32%[2%]: default, off by 1.5e%-06\n', tostring(of(size { made = made })))
    made.difference = nil
    assert.matches('^f32%[2%]: default\n', tostring(of(size { made = made })))
    assert.equal('f32[2]: eager\n  because\n  3 calls', tostring(of(size { mode = 'eager',
      why = 'because' })))
    assert.equal('f32[2]: default\n  3 calls', tostring(of(size { made = 'none' })))
    assert.equal('nothing is compiled yet: call it', tostring(of()))
    assert.equal(1, #of(size { mode = 'none' }, size()))
    assert.equal('nothing is compiled yet: call it', tostring(of(size { mode = 'none' })))
  end)
end)

describe('candidates', function()
  it('run in turn, fifteen times, or three where that is long', function()
    local order = {}
    local function candidate(name, s)
      return function()
        order[#order + 1] = name
        local began = os.clock()
        while os.clock() - began < s do end
      end
    end
    for _ = 1, 5 do -- others may take the processor away for as long as all may take
      order = {}
      timing.medians { candidate('a', 0), candidate('b', 0) }
      if #order == 30 then break end
    end
    assert.equal(('ab'):rep(15), table.concat(order))
    order = {}
    local ms = timing.medians { candidate('a', 0.035), candidate('b', 0) }
    assert.equal(('ab'):rep(3), table.concat(order))
    assert.is_true(ms[1] >= 35)
    assert.same({}, timing.medians {})
    local took, x, y, z = timing.once(function() return 7, nil, 9 end)
    assert.same({ 7, 9 }, { x, z })
    assert.is_nil(y)
    assert.is_true(took >= 0 and took < 1000)
  end)
end)

describe('kinds of nodes that can be taken apart', function()
  local function node(op, act, flops, more)
    local n = { op = op, args = { act = act, shape = { 2, 3 }, value = 0.5 }, flops = flops,
      inputs = { { dtype = 'f32', shape = { 2, 3 } }, false }, outputs = { {} } }
    for key, value in pairs(more or {}) do n[key] = value end
    return n
  end
  local function kinds(...)
    local list = { ... }
    return apart.kinds { nodes = function() return list end }
  end

  it('have an activation, those of most operations together first', function()
    local a = 'linear f32[2,3] - act=relu shape=2x3 value=0.5'
    local b = 'conv2d f32[2,3] - act=gelu shape=2x3 value=0.5'
    assert.same({ a }, kinds(node('linear', 'relu', 1)))
    assert.same({ a, b }, kinds(node('conv2d', 'gelu', 5), node('linear', 'relu', 3),
      node('linear', 'relu', 3)))
    assert.same({ b, a }, kinds(node('linear', 'relu', 3), node('conv2d', 'gelu', 3)))
    assert.same({}, kinds(node('linear', 'none', 1), node('linear', nil, 1),
      node('linear', 'relu', 1, { parent = {} }), node('linear', 'relu', 1, { recomputed = 3 }),
      node('linear', 'relu', 1, { outputs = { {}, {} } })))
  end)

  it('are twelve at most', function()
    local list = {}
    for i = 1, 13 do list[i] = node('linear' .. i, 'relu', i) end
    local found = kinds(unpack(list))
    assert.equal(12, #found)
    assert.matches('^linear13 ', found[1])
    assert.matches('^linear2 ', found[12])
  end)

  it('give the same numbers apart', function()
    local net = ridge.nn.Sequential(ridge.nn.Linear(3, 2, { activation = 'relu', seed = 1 }))
    local x = ridge.randn(4, 3)
    local g = ridge.graph(net, x)
    local list = apart.kinds(g)
    assert.equal(1, #list)
    apart.edit { [list[1]] = true }(g)
    local ops = {}
    for i, n in ipairs(g:nodes()) do ops[i] = n.op .. ':' .. tostring(n.args.act) end
    assert.same({ 'linear:none', 'relu:nil' }, ops)
    assert.is_true((g:plan():run() - net(x)):abs():max():item() < 1e-6)
    g = ridge.graph(net, x)
    apart.edit {}(g)
    assert.equal(1, #g:nodes())
    apart.edit()(g)
    assert.equal(1, #g:nodes())
  end)
end)
