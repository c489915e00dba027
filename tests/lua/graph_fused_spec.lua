-- SPDX-License-Identifier: MIT
-- Elementwise fusion: chains have the bits of their functions one after the other, in every type
-- and on every instruction set; what somebody else reads is stored; nothing crosses a write.
local ffi = require 'ffi'
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local C = require 'ridge.ffi.lib'

local PASS = { 'elementwise_fusion' }

local function ops(plan) return table.concat(plan:facts().steps, ' ') end

-- The plan of a function with its chains; f is run once more than the plan.
local function fused(f, ...) return ridge.graph(f, ...):optimize(PASS):plan() end

-- Are two lists of bits the same?  They are too long to be shown.
local function alike(a, b)
  local equal = #a == #b
  for i = 1, #a do equal = equal and a[i] == b[i] end
  return equal
end

-- Does the plan of a function, which writes nothing outside, have the bits of the calls?
local function same(f, steps, about)
  local want = bits.all(f())
  local plan = fused(f)
  assert.is_true(alike(want, bits.all(plan:run())), about or ops(plan))
  if steps then assert.equal(steps, ops(plan), about) end
end

-- Elements of which some are unusual: payloads of nan, signalling ones too, inf, -0, subnormals.
local UNUSUAL = {
  f32 = { 0x7fc12345, 0xffc00001, 0x7f800001, 0xffa54321, 0x7f800000, 0xff800000, 0x80000000, 0,
    1, 0x80000001, 0x007fffff, 0x7f7fffff, 0x3f800000 },
  bf16 = { 0x7fc1, 0xffc2, 0x7f81, 0xffa5, 0x7f80, 0xff80, 0x8000, 0, 1, 0x8001, 0x7f7f, 0x3f80 },
  f16 = { 0x7e01, 0xfe02, 0x7c01, 0xfd55, 0x7c00, 0xfc00, 0x8000, 0, 1, 0x83ff, 0x7bff, 0x3c00 },
}
UNUSUAL.f64 = { 0x7fc12345, 0xffc00001, 0x7ff00001, 0xfff54321, 0x7ff00000, 0xfff00000, 0x80000000,
  0, 0x00000001, 0x80000001, 0x7fefffff, 0x3ff00000 } -- the high halves
local WORD = { f32 = 'uint32_t *', bf16 = 'uint16_t *', f16 = 'uint16_t *', f64 = 'uint64_t *' }

local state = 1
local function below(n)
  state = (state * 48271) % 2147483647
  return math.floor(state / 2147483647 * n) + 1
end
local function pick(list) return list[below(#list)] end

local function made(shape, dtype, share)
  local x = ridge.randn(shape):to(dtype)
  local at, list = ffi.cast(WORD[dtype], x._t._data), UNUSUAL[dtype]
  for i = 0, tonumber(x._t._count) - 1 do
    if below(1000) <= share then
      at[i] = dtype == 'f64' and pick(list) * 0x100000000ULL + below(3) or pick(list)
    end
  end
  return x
end

local ONE = { 'neg', 'abs', 'sign', 'square', 'relu', 'floor', 'ceil', 'round', 'sqrt', 'rsqrt',
  'reciprocal', 'exp', 'log', 'log1p', 'sin', 'cos', 'tanh', 'erf', 'sigmoid', 'gelu', 'silu',
  'softplus',
  'trunc', 'exp2', 'expm1', 'log2', 'tan', 'asin', 'acos', 'atan', 'sinh', 'cosh', 'asinh', 'acosh',
  'atanh', 'selu', 'mish', 'softsign', 'hardsigmoid', 'hardswish', 'relu6' }
local TWO = { 'add', 'sub', 'mul', 'div', 'pow', 'maximum', 'minimum',
  'remainder', 'fmod', 'floor_divide', 'trunc_divide', 'atan2', 'prelu', 'elu', 'celu',
  'threshold' }
local NUMBERS = { 0, -0.0, 1, 2, 0.1, -3.25, math.huge, 0 / 0, 1e-40 }

-- Shapes that broadcast to one: the same, a row, a column, one element, less axes.
local function parts(shape)
  local row, column, one = {}, {}, {}
  for i = 1, #shape do
    row[i], column[i], one[i] = 1, shape[i], 1
  end
  row[#shape], column[#shape] = shape[#shape], 1
  return { shape, shape, row, column, one, { shape[#shape] }, { 1 } }
end

-- A chain of n random functions; casts only among f32 and the half types.
local function chain(shape, dtype, n, share)
  local x = made(shape, dtype, share)
  local list, now = {}, dtype
  for i = 1, n do
    local kind, mine = below(8), now
    if kind <= 3 then
      local name = pick(ONE)
      list[i] = function(v) return v[#v][name](v[#v]) end
    elseif kind == 4 then
      local name, number = pick(TWO), pick(NUMBERS)
      list[i] = function(v) return v[#v][name](v[#v], number) end
    elseif kind == 5 then
      local number = pick(NUMBERS)
      list[i] = function(v) return number - v[#v] end
    elseif kind == 6 then
      local name, other, first = pick(TWO), made(pick(parts(shape)), mine, share), below(2) == 1
      list[i] = function(v)
        if first then return other[name](other, v[#v]) end
        return v[#v][name](v[#v], other)
      end
    elseif kind == 7 and dtype ~= 'f64' then
      now = pick { 'f32', 'bf16', 'f16' }
      local to = now
      list[i] = function(v) return v[#v]:to(to) end
    else
      local name, back = pick(TWO), below(3)
      list[i] = function(v)
        local before = v[math.max(1, #v - back)]
        if before.dtype ~= v[#v].dtype then before = before:to(v[#v].dtype) end
        return before[name](before, v[#v])
      end
    end
  end
  local middle = below(3) == 1 and below(n) or nil
  return function()
    local v = { x }
    for i = 1, n do v[i + 1] = list[i](v) end
    return v[n + 1], middle and v[middle]
  end
end

describe('elementwise fusion', function()
  after_each(function()
    assert(C.rg_set_isa(C.rg_machine_facts().isa_level) == 0)
    C.rg_alloc_fail_at(0)
  end)

  it('has the bits of one function after the other, on every instruction set', function()
    local chains = 0
    for level = 0, C.rg_machine_facts().isa_level do
      assert(C.rg_set_isa(level) == 0)
      for _, dtype in ipairs { 'f32', 'f64', 'bf16', 'f16' } do
        for _, shape in ipairs { { 1 }, { 7 }, { 63 }, { 65 }, { 5, 13 }, { 4097 }, { 17, 241 },
          { 3, 40, 50 }, { 241, 17 }, { 64, 64 } } do
          for round = 1, 3 do
            local f = chain(shape, dtype, 2 + below(12), round == 1 and 0 or 400)
            local want = bits.all(f())
            local plan = fused(f)
            chains = chains + select(2, ops(plan):gsub('fused', ''))
            assert.is_true(alike(want, bits.all(plan:run())),
              ('isa %d, %s, %s: %s'):format(level, dtype, table.concat(shape, ' '), ops(plan)))
          end
        end
      end
    end
    assert.is_true(chains > 100)
  end)

  it('of many elements too, on several threads', function()
    for _, dtype in ipairs { 'f32', 'f64', 'bf16', 'f16' } do
      for _, shape in ipairs { { 100003 }, { 1000, 101 }, { 3, 33000 }, { 33000, 3 } } do
        local f = chain(shape, dtype, 8, 50)
        same(f, nil, dtype)
      end
    end
  end)

  it('takes each function and each derivative of an activation', function()
    for _, dtype in ipairs { 'f32', 'f64', 'bf16', 'f16' } do
      local x, y = made({ 9, 31 }, dtype, 200), made({ 9, 31 }, dtype, 200)
      for _, name in ipairs(ONE) do same(function() return (x[name](x) + y)[name](x + y) end) end
      for _, name in ipairs(TWO) do
        same(function() return x[name](x, y):neg() end, 'fused')
        same(function() return x[name](x, 2):neg()[name](x, 0.5) end, nil)
      end
      for _, name in ipairs { 'relu', 'gelu', 'silu', 'tanh', 'sigmoid', 'relu6' } do
        local v = made({ 9, 31 }, dtype, 200):requires_grad_()
        local function back() return ridge.grad((v[name](v) * x):sum(), v) end
        local g = ridge.graph(back):optimize(PASS)
        assert.is_truthy(tostring(g):find('act_back(', 1, true), name)
        assert.is_true(alike(bits.all(back()), bits.all(g:plan():run())), name)
      end
    end
  end)

  it('stores what somebody else reads, and nothing else', function()
    local x, w = ridge.randn(6, 8), ridge.randn(8, 3)
    local function f()
      local a = x:exp()
      local b = a + 1
      return b:tanh() * 2, b:matmul(w)
    end
    local h = ridge.graph(f):optimize(PASS)
    local node = h:nodes()[1]
    assert.same({ { op = 'exp', dtype = 'f32', load = 1 },
      { op = 'add', dtype = 'f32', number = 1, store = 1 }, { op = 'tanh', dtype = 'f32' },
      { op = 'mul', dtype = 'f32', number = 2, store = 2 } }, node.args.links)
    assert.equal('fused matmul', ops(h:plan()))
    same(f)
    same(function()
      local a = x:exp()
      local b = (a + 1):matmul(w)
      return b, a:tanh()
    end, 'fused matmul tanh')
    same(function() return x:exp() + 1, x:exp():tanh() end)
    local both = ridge.graph(function()
      local a = x:exp()
      return a, a:tanh()
    end):optimize(PASS)
    assert.equal(2, #both:nodes()[1].outputs)
  end)

  it('reads again what was made more than one link before', function()
    local x = ridge.randn(40)
    same(function()
      local a = x:exp()
      return a:tanh():neg() * a
    end, 'fused')
    same(function()
      local a = x * 2
      local b = a:tanh()
      a:add_(b)
      return a:neg() - b
    end, 'fused')
  end)

  it('writes in place what is written in place, once', function()
    local x, y = ridge.randn(5, 8), ridge.randn(5, 8)
    local function step()
      x:mul_(0.5):add_(y):mul_(y:exp())
      return x + 1
    end
    local want = x:clone()
    local h = ridge.graph(step):optimize(PASS)
    h:check()
    assert.equal(1, #h:nodes())
    local plan = h:plan()
    want:mul_(0.5):add_(y):mul_(y:exp()) -- what the recording did
    for _ = 1, 3 do
      want:mul_(0.5):add_(y):mul_(y:exp())
      assert.is_true(bits.of(want + 1) == bits.of(plan:run()))
      assert.is_true(bits.of(want) == bits.of(x))
    end
  end)

  it('moves no read across a write', function()
    local x, y = ridge.randn(30), ridge.randn(30)
    local function f()
      local a = y * 2 -- reads y before it is written
      local s = x:sum()
      y:copy_(s:view(1):expand(30))
      return a + x
    end
    local first = y:clone()
    local h = ridge.graph(f):optimize(PASS)
    local plan = h:plan()
    y:copy_(first)
    local got = plan:run()
    assert.is_true(bits.of(first * 2 + x) == bits.of(got))
    assert.equal('mul sum copy add', ops(plan))
  end)

  it('leaves alone what meets memory at another element', function()
    local long = ridge.randn(64)
    local wanted = long:clone()
    local function shift(t)
      local z = t[{ { 1, 63 } }] * 2
      t[{ { 2, 64 } }]:copy_(z)
    end
    local plan = fused(shift, long)
    shift(wanted)
    for _ = 1, 2 do
      shift(wanted)
      plan:run()
    end
    assert.is_true(bits.of(wanted) == bits.of(long))
    assert.equal('mul copy', ops(plan))
    local x = ridge.randn(6, 6)
    same(function() return x:t() + 1, (x * 2):t():neg():contiguous() * 3 end)
  end)

  it('keeps draws, comparisons, sums and other shapes where they are', function()
    local x = ridge.randn(6, 8)
    assert.equal('fused dropout fused', ops(fused(function()
      return (x:exp() + 1):dropout(0.5):neg() * 2
    end)))
    assert.equal('gt cast add', ops(fused(function() return x:gt(0):to 'f32' + 1 end)))
    assert.equal('fused sum', ops(fused(function() return (x:exp() * 2):sum() end)))
    assert.equal('exp exp', ops(fused(function() return x:exp(), x[1]:exp() end)))
  end)

  it('keeps the bits of a copied signalling nan', function()
    local x = made({ 50 }, 'bf16', 800)
    same(function() return x:clone() end, 'copy')
    same(function()
      local y = x:clone()
      return y, y:neg()
    end)
  end)

  it('does without what lies otherwise than when the chain was made', function()
    local x = ridge.randn(4, 4)
    local h = ridge.graph(function(a) return (a + 1):exp() end, x):optimize(PASS)
    local other = ridge.randn(4, 4)
    local plan = h:plan { tensors = { other:t() } }
    assert.equal('copy fused', ops(plan))
    assert.is_true(bits.of((other:t() + 1):exp()) == bits.of(plan:run()))
  end)

  it('counts what its functions count, and what crosses memory once', function()
    local x = ridge.randn(10, 10)
    local g = ridge.graph(function() return ((x * 2 + 1):gelu()) end)
    local h = g:optimize(PASS)
    assert.equal(16 * 100, h:plan():facts().flops)
    assert.equal(2 * 400, h:plan():facts().bytes)
    assert.equal(6 * 400, g:plan():facts().bytes)
  end)

  it('is read and written as text', function()
    local x, y = ridge.randn(6, 8), ridge.randn(8)
    local h = ridge.graph(function()
      local a = (x * 0.1 - y):to 'bf16'
      return a:tanh(), (3 / a):to 'f32'
    end):optimize(PASS)
    local back = ridge.graph.parse(h:json())
    assert.is_true(back:same(h))
    assert.matches('links=%[mul%(#1, 0%.1%); sub%(v, #2%); cast%(v%): bf16 > 1; tanh%(v%) > 2; '
      .. 'div%(3, #3%); cast%(v%): f32 > 3%]', tostring(h))
    assert.equal(h:json(), back:json())
  end)

  it('is refused where a file says what is not there', function()
    local x = ridge.randn(6)
    local h = ridge.graph(function() return (x * 2 + x):to 'bf16' end):optimize(PASS)
    local text = h:json()
    local link = '{"op": "mul", "type": "f32", "load": 0, "number": 2}'
    assert.is_truthy(text:find(link, 1, true))
    local function refused(from, to, why)
      local at, last = text:find(from, 1, true)
      assert.is_truthy(at, from)
      local ok, e = pcall(ridge.graph.parse, text:sub(1, at - 1) .. to .. text:sub(last + 1))
      assert.is_false(ok, to)
      assert.matches(why, tostring(e), to)
      assert.equal('EFORMAT', e.code)
    end
    refused('"load": 0', '"load": 1', 'loads what is not there')
    refused('"load": 0', '"load": 24', 'not in 0 .. 23')
    refused('"load": 0', '"load": -1', 'not in 0 .. 23')
    refused('"load": 0, ', '', 'has no value to work on')
    refused('"with": 0', '"with": 7', 'reads what is not there')
    refused('"with": 0', '"with": "nothing"', "'nothing' is no operand")
    refused('"with": 0', '"with": 0, "number": 1', 'one second operand')
    refused(', "number": 2', '', 'second operand where it takes none, or none')
    refused('"op": "mul"', '"op": "gelu"', 'second operand where it takes none')
    refused('"op": "mul"', '"op": "eq"', "'eq' is no link")
    refused('"op": "mul"', '"op": "matmul"', "'matmul' is no link")
    refused('"op": "mul"', '"op": "act_back"', 'second operand where')
    refused('"op": "mul", "type": "f32"', '"op": "mul", "type": "f64"', 'value of another type')
    refused('"op": "mul", "type": "f32"', '"op": "mul", "type": "i32"', 'makes no float type')
    refused('"op": "mul", "type": "f32"', '"op": "mul"', 'an op and a type')
    refused('"store": 0', '"store": 1', 'stores a result that is not the next one')
    refused('"store": 0', '"store": 8', 'not in 0 .. 7')
    refused(', "store": 0', '', 'is the last one and stores nothing')
    refused('"number": 2', '"number": 2, "reversed": 2', 'not in 0 .. 1')
    refused('"op": "cast", "type": "bf16"', '"op": "cast", "type": "bf16", "reversed": 1',
      'turns round')
    refused('"number": 2', '"number": 2, "act": "gelu"', 'no such activation')
    refused('"number": 2', '"number": 2, "other": 1', "a link has no 'other'")
    refused(link, ((link .. ', '):rep(24)) .. link, 'more than 24 links')
    local all = text:match '"links": (%b[])'
    refused(all, '[]', '0 links')
    refused(all, '7', 'expected')
  end)

  it('leaves the graph as it was where memory fails, at each place', function()
    local x, w = ridge.randn(4, 6), ridge.randn(6, 3)
    local function f()
      local a = (x * 2):exp()
      x:add_(a)
      return (a + x):matmul(w):tanh() * 3, a
    end
    local g = ridge.graph(f)
    local before = g:json()
    local slot, names = ffi.new 'rg_graph *[1]', ffi.new('const char *[1]', PASS)
    local failed = 0
    for n = 1, 1000 do
      C.rg_alloc_fail_at(n)
      local status = C.rg_graph_optimize(g._p, names, 1, slot)
      C.rg_alloc_fail_at(0)
      assert.equal(before, g:json())
      if status == 0 then
        C.rg_graph_release(slot[0])
        break
      end
      assert.equal(tonumber(C.RG_ENOMEM), status)
      failed = failed + 1
    end
    assert.is_true(failed > 10 and failed < 1000, failed)
  end)

  it('is seen in a profile, by the names of its functions', function()
    local x = ridge.randn(30)
    local plan = fused(function() return (x * 2 + 1):gelu() end)
    local profile = ridge.profile(function() plan:run(3) end)
    assert.equal('fused', profile.operations[1].op)
    assert.equal('mul,add,gelu', profile.operations[1].path)
  end)
end)
