-- SPDX-License-Identifier: MIT
--- Tables of an analysis whose numbers are told: columns that come and go, layers that are one by
--- the depth of their path, what is left out, shares of the roof.

local text = require 'ridge.analyze.text'

-- A thin space stands before units.
local function plain(s) return (s:gsub('\226\128\175', ' '):gsub(' +\n', '\n'):gsub(' +$', '')) end

local function layer(name, class, more)
  local l = { name = name, class = class, calls = 1, params = 0, buffers = 0, bytes = 0,
    flops = 0, other_flops = 0, backward_flops = 0, backward_other_flops = 0, saved_bytes = 0,
    ms = 0, backward_ms = 0, share = 0 }
  for key, value in pairs(more or {}) do l[key] = value end
  return l
end

local function analysis(more)
  local a = { class = 'nn.Sequential', dtype = 'f32', device = 'cpu', batch = 8, params = 1234,
    bytes = 4096, flops = 4e6, other_flops = 64, multiply_adds = 2e6, backward_flops = 8e6,
    saved_bytes = 2048, backward = true, rounds = 4, step_ms = 9, layers_ms = 8,
    layers_forward_ms = 3, watched_ms = 10, outside = { ms = 0.5, backward_ms = 1.5,
      saved_bytes = 1024 }, notes = {}, layers = {
      layer('nn.Sequential', 'nn.Sequential', { ms = 0.5 }),
      layer('1', 'nn.Linear', { params = 1200, bytes = 4000, flops = 3e6, other_flops = 60,
        backward_flops = 6e6, backward_other_flops = 40, saved_bytes = 1024, ms = 2,
        backward_ms = 4, share = 0.6, roof_ms = 1, backward_roof_ms = 2, roof = 'memory' }),
      layer('2.a', 'nn.Linear', { params = 34, bytes = 96, flops = 1e6, other_flops = 4,
        backward_flops = 2e6, saved_bytes = 1024, ms = 0.25, backward_ms = 0.5, share = 0.1,
        roof_ms = 0.5 }),
      layer('2.b', 'nn.ReLU', { ms = 0.25, backward_ms = 0.5, share = 0.05 }) } }
  for key, value in pairs(more or {}) do a[key] = value end
  return a
end

describe('an analysis as text', function()
  it('is what layers hold, compute and take', function()
    assert.equal([[
nn.Sequential, batch 8, f32 on cpu: 1 234 parameters, 4 KB
forward 4 MFLOP: 2 for each of 2 M multiply-adds of products; 64 FLOP of other kinds beside

layer  params   memory  FLOP  other  backward  saved  class
1        1200  3.91 KB   3 M     60       6 M   1 KB  Linear
2.a        34     96 B   1 M      4       2 M   1 KB  Linear
total    1234     4 KB   4 M     64       8 M   3 KB

layer          forward  backward    share         rate        of roof
1                 2 ms      4 ms   60.0 %  1.5 GFLOP/s  50.0 % memory
2.a             250 µs    500 µs   10.0 %    4 GFLOP/s        66.7 %
2.b             250 µs    500 µs    5.0 %
nn.Sequential   500 µs              0.0 %
outside         500 µs    1.5 ms   20.0 %
total           3.5 ms    6.5 ms  100.0 %

layers 8 ms and outside 2 ms make 10 ms; a step that nobody looks on at takes 9 ms (means of the]]
      .. ' faster half of 4 rounds)', plain(text.text(analysis())))
  end)

  it('counts what is stored beside parameters', function()
    local a = analysis { params = 34 }
    a.layers[2].params, a.layers[2].buffers, a.layers[4].buffers = 0, 1190, 10
    assert.truthy(plain(text.text(a)):find('on cpu: 34 parameters and 1 200 in buffers, 4 KB', 1,
      true))
  end)

  it('has columns for what there is', function()
    local a = analysis { backward = false, batch = false, step_ms = false, notes = { 'a note' } }
    a.layers[2].calls = 3
    a.layers = { a.layers[2], a.layers[3] }
    assert.equal([[
nn.Sequential, f32 on cpu: 1 234 parameters, 4 KB
forward 4 MFLOP: 2 for each of 2 M multiply-adds of products; 64 FLOP of other kinds beside

layer  calls  params   memory  FLOP  other  class
1          3    1200  3.91 KB   3 M     60  Linear
2.a        1      34     96 B   1 M      4  Linear
total           1234     4 KB   4 M     64

not timed (rounds = 0)
a note]], plain(text.text(a)))
    a = analysis { backward = false }
    for _, l in ipairs(a.layers) do l.roof_ms = nil end
    assert.matches('\nlayer +forward +share +rate\n1 +2 ms +60.0 %% +1.5 GFLOP/s\n',
      plain(text.text(a)))
  end)

  it('leaves out what is too much, and joins what is below a depth', function()
    local got = plain(text.text(analysis(), { rows = 1 }))
    assert.matches('\n1  [^\n]*\ntotal [^\n]*\n%(and 1 layer more%)\n', got)
    assert.matches('\n1  [^\n]*\noutside [^\n]*\ntotal [^\n]*\n%(and 3 layers more%)\n', got)
    got = plain(text.text(analysis(), { depth = 1 }))
    assert.matches('\n2  +34  +96 B +1 M +4 +2 M +1 KB  Linear\n', got)
    assert.matches('\n2  +500 µs +1 ms +15.0 %% +2 GFLOP/s +33.3 %%\n', got)
    assert.not_matches('2%.a', got)
    assert.matches('2%.a', plain(text.text(analysis(), { depth = 2 })))
    assert.matches('nn.Sequential   500', got) -- its class is no path
  end)
end)

describe('bottlenecks as text', function()
  it('are rows with their share of the roof', function()
    assert.equal('layer   class    time   share\n'
      .. 'a.long  Linear   6 ms  60.0 %  over 20.0 %  50.0 % of the roof (memory)\n'
      .. 'b       X       12 ms   5.0 %', plain(text.bottlenecks { limit = 0.2,
        { name = 'a.long', class = 'nn.Linear', ms = 6, share = 0.6, over = true, roof = 'memory',
          roof_share = 0.5 }, { name = 'b', class = 'X', ms = 12, share = 0.05 } }))
    assert.equal('no layer takes over 20.0 %', text.bottlenecks { limit = 0.2 })
  end)
end)

describe('a class of any name', function()
  it('is told in one line', function()
    local ridge = require 'ridge'
    local name = 'two\nlines\27[1m'
    local Odd = ridge.nn.class(name)
    function Odd:init() self.list = { ridge.nn.Linear(4, 4) } end
    function Odd:forward(x) return self.list[1](x) end
    local told = tostring(Odd():analyze(ridge.ones(3, 4), { rounds = 0 }))
    assert.matches('^two\\nlines', told)
    assert.is_nil(told:find('two\n', 1, true) or told:find('\27', 1, true))
    local advice = require('ridge.advise.text').text { what = 'the net', net = name, device = 'cpu',
      counts = { applies = 0, no = 0, unknown = 0 }, lines = {}, findings = {} }
    assert.matches('^the net of two\\nlines[^\n]*$', advice)
  end)
end)

describe('what a net would be otherwise', function()
  it('is a table with what is known of each', function()
    local ridge = require 'ridge'
    local a = ridge.nn.Sequential(ridge.nn.Linear(4, 2)):analyze(ridge.ones(3, 4), { rounds = 0 })
    local lines = a:what_if { dtype = 'bf16' }
    local told = setmetatable({ notes = { 'a note' },
      { batch = 8, dtype = 'f32', recompute = true, how = 'measured', bytes = 2048, flops = 1e6,
        backward_flops = 2e6, saved_bytes = 1024, step_ms = 3 },
      { dtype = 'bf16', how = 'computed', bytes = 64, flops = 10 } }, getmetatable(lines))
    assert.equal('batch  dtype                        memory  FLOP  backward  saved  step\n'
      .. '    8  f32    recomputed  measured    2 KB   1 M       2 M   1 KB  3 ms\n'
      .. '       bf16               computed    64 B    10\na note', plain(tostring(told)))
    assert.equal('computed', lines[1].how)
  end)

  it('and bottlenecks are asked with numbers from 1', function()
    local ridge = require 'ridge'
    local x = ridge.ones(3, 4)
    local a = ridge.nn.Sequential(ridge.nn.Linear(4, 2)):analyze(x, { rounds = 1, roof = false })
    assert.equal(1, #a:find_bottlenecks { top = 1 })
    for _, top in ipairs { 0, 2 ^ 31 + 1, 0.5 } do
      assert.is_false((pcall(a.find_bottlenecks, a, { top = top })))
    end
    assert.is_true((pcall(a.find_bottlenecks, a, { over = 0 })))
    assert.is_true((pcall(a.find_bottlenecks, a, { over = 1 })))
    for _, over in ipairs { -0.1, 1.1 } do
      assert.is_false((pcall(a.find_bottlenecks, a, { over = over })))
    end
    for _, option in ipairs { 'rows', 'depth' } do
      assert.is_false((pcall(a.text, a, { [option] = 0 })))
      assert.is_string(a:text { [option] = 1 })
    end
    local p = ridge.profile(function() x:exp() end, { lines = false })
    assert.is_false((pcall(p.table, p, { rows = 0 })))
    assert.is_string(p:table { rows = 1 })
  end)
end)
