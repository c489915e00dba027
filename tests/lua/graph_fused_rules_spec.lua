-- SPDX-License-Identifier: MIT
-- What elementwise fusion leaves apart, and where chains end: memory seen through two views,
-- layouts that tensors have or are given later, recomputed parts, what a chain has room for.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local C = require 'ridge.ffi.lib'

local PASS = { 'elementwise_fusion' }

local function ops(plan) return table.concat(plan:facts().steps, ' ') end
local function fused(f, ...) return ridge.graph(f, ...):optimize(PASS):check():plan() end

local function same(f, steps, about)
  local want = bits.all(f())
  local plan = fused(f)
  if steps then assert.equal(steps, ops(plan), about) end
  assert.is_true(table.concat(want) == table.concat(bits.all(plan:run())), about or ops(plan))
end

-- A function that writes into `memory`: a plan does to it what the calls do to a copy.
local function writes(memory, f, steps)
  local before = memory:clone()
  local want = bits.all(f())
  local behind = bits.of(memory)
  memory:copy_(before)
  local plan = fused(f)
  memory:copy_(before)
  local got = bits.all(plan:run())
  assert.equal(steps, ops(plan))
  assert.is_true(table.concat(want) == table.concat(got))
  assert.is_true(behind == bits.of(memory))
end

describe('elementwise fusion', function()
  after_each(function() assert(C.rg_set_isa(C.rg_machine_facts().isa_level) == 0) end)

  it('writes through no view what it read through another one', function()
    for _, n in ipairs { 40, 5000 } do -- in one block, and in several
      local base, y = ridge.randn(n + 1), ridge.randn(n)
      local low, high = base:narrow(1, 1, n), base:narrow(1, 2, n)
      writes(base, function()
        local a, b = low * 2, high * 3
        high:add_(a)
        return b + y
      end, 'fused fused')
      writes(base, function()
        local a = y * 2
        high:add_(low)
        return a
      end, 'fused copy') -- what overlaps is computed apart and copied
      local wide = ridge.randn(2 * n)
      local first, second = wide:narrow(1, 1, n), wide:narrow(1, n + 1, n)
      writes(wide, function()
        first:add_(second) -- what does not is no link all the same
        return y * 3
      end, 'add mul')
    end
  end)

  it('joins what has the same axes alone', function()
    local x, row = ridge.randn(2, 2), ridge.randn(2)
    same(function() return x:exp(), row:exp() end, 'exp exp')
    same(function() return row:exp(), x:exp() end, 'exp exp')
    same(function() return x:view(1, 2, 2):exp(), x:tanh() end, 'exp tanh')
  end)

  it('copies what is smaller apart: no input would say the shape', function()
    for _, case in ipairs { { { 3, 4 }, { 1, 4 } }, { { 3, 4 }, { 4 } }, { { 3, 4 }, { 3, 1 } },
      { { 3, 4 }, { 1 } }, { { 1, 4 }, { 4 } }, { { 3, 4 }, { 3, 4 }, 'fused' } } do
      local y, x = ridge.randn(case[1]), ridge.randn(case[2])
      writes(y, function()
        y:copy_(x)
        return y:exp():neg()
      end, case[3] or 'copy fused')
    end
  end)

  it('keeps no more memory alive across other work than it spares', function()
    local x, y, w = ridge.randn(6, 6), ridge.randn(6, 6), ridge.randn(6, 6)
    same(function()
      local a = x + y
      local b = w:matmul(w)
      return a:tanh(), b
    end, 'add matmul tanh')
    same(function()
      local a = x + 1
      local b = w:matmul(w)
      return a:tanh(), b
    end, 'matmul fused')
  end)

  it('knows how tensors lie that were there, and when they have been written to', function()
    local x, y = ridge.randn(5, 7), ridge.randn(7, 5)
    local across = x:t()
    same(function() return (across + 1):exp():tanh() end, 'add fused')
    writes(x, function()
      across:add_(y)
      return (across * 2):exp():neg()
    end, 'add mul fused')
  end)

  it('writes to what lies otherwise than when the chain was made', function()
    local x, y = ridge.randn(4, 6), ridge.randn(4, 6)
    local function f(a) return a:mul_(0.5):add_(y):tanh() end
    local h = ridge.graph(f, x):optimize(PASS)
    local one = ridge.randn(6, 4):t()
    local two = one:clone()
    local got = h:plan { tensors = { one } }:run()
    assert.is_true(bits.of(f(two)) == bits.of(got))
    assert.is_true(bits.of(two) == bits.of(one))
  end)

  it('is of recomputed parts, or of none', function()
    local x = ridge.randn(9):requires_grad_()
    local y = ridge.randn(9)
    local function step()
      x:zero_grad()
      local v = ridge.recompute(function(v) return (v * y):exp():tanh() end, x)
      ;(v * 3 * y):sum():backward()
    end
    step()
    local g = ridge.graph(step)
    local function recomputed(graph)
      local n = 0
      for _, node in ipairs(graph:nodes()) do
        if node.recomputed then n = n + (node.op == 'fused' and #node.args.links or 1) end
      end
      return n
    end
    assert.equal(3, recomputed(g))
    assert.equal(3, recomputed(g:optimize(PASS)))
  end)

  it('ends where there is no room for more tensors', function()
    local x, c, d = ridge.randn(90), ridge.randn(90), ridge.randn(90)
    local small = {}
    for i = 1, 23 do small[i] = ridge.randn(1) end
    same(function() -- 23 inputs, and two more at once
      local v = x
      for i = 1, 22 do v = v * small[i] end
      return c * d, v
    end)
    same(function() -- 20 inputs and seven results
      local v, held = x, {}
      for i = 1, 19 do
        v = v + small[i]
        if i % 3 == 0 then held[#held + 1] = v end
      end
      return held, v
    end)
    same(function() -- more results than a node has
      local v, held = x, {}
      for i = 1, 12 do
        v = v + small[i]
        held[i] = v
      end
      return held
    end)
  end)

  it('repeats rows and columns of each length, in each type and on each side', function()
    for _, dtype in ipairs { 'f32', 'f64', 'bf16', 'f16' } do
      for _, shape in ipairs { { 9, 300 }, { 300, 9 }, { 2, 2500 }, { 17, 31 } } do
        local x = ridge.randn(shape):to(dtype)
        local row, column = x[2]:clone(), x:narrow(2, 1, 1):clone()
        for _, other in ipairs { row, column } do
          same(function()
            local a = (x - other) * 2
            return (other / a):exp(), other - x * 3
          end, nil, dtype)
        end
        same(function() return (2 ^ x):neg(), (3 / x):neg(), (2 - x):neg() end, nil, dtype)
      end
    end
  end)

  -- What is one number for several of the chain's is no operand that is loaded for each.
  it('loads what moves, and holds what stands still against it', function()
    local y = ridge.randn(3, 4)
    local function link(f, x)
      return ridge.graph(function(a, b) return f(a, b):exp() end, x, y):optimize(PASS):json()
        :match '"op": "sub", "type": "f32", ([^}]+)'
    end
    local function ahead(a, b) return a - b end
    local function behind(a, b) return b - a end
    for _, still in ipairs { ridge.randn(3, 1), ridge.randn(1), ridge.randn(1, 1) } do
      assert.equal('"load": 1, "with": 0, "reversed": 1', link(ahead, still))
      assert.equal('"load": 0, "with": 1', link(behind, still))
    end
    for _, moving in ipairs { ridge.randn(4), ridge.randn(1, 4), ridge.randn(3, 4) } do
      assert.equal('"load": 0, "with": 1', link(ahead, moving))
      assert.equal('"load": 0, "with": 1', link(behind, moving))
    end
  end)

  it('follows the instruction set from one replay to the next', function()
    local x = ridge.randn(33, 65)
    local function f() return (x:exp() * x + x:gelu()):tanh() * 3 end
    local plan = ridge.capture(f)
    local last = C.rg_machine_facts().isa_level
    for i = -last, last do
      assert(C.rg_set_isa(math.abs(i)) == 0)
      assert.is_true(bits.of(f()) == bits.of(plan()), 'isa ' .. math.abs(i))
    end
  end)

  it('is refused in a file that has too many tensors, or makes f32 of f64', function()
    local x = ridge.randn(3)
    local text = ridge.graph(function() return (x * x):exp():to 'bf16' end):optimize(PASS):json()
    local function refused(from, to, why)
      local at, last = text:find(from, 1, true)
      assert.is_truthy(at, from)
      local ok, e = pcall(ridge.graph.parse, text:sub(1, at - 1) .. to .. text:sub(last + 1))
      assert.is_false(ok, to)
      assert.matches(why, tostring(e))
      assert.equal('EFORMAT', e.code)
    end
    refused('"in": [0]', '"in": [0' .. (', 0'):rep(23) .. ']', '25 tensors, .* at most 24')
    refused('"in": [0]', '"in": [0' .. (', 0'):rep(24) .. ']', '25 inputs')
    refused('"in": [0]', '"in": []', 'xs is missing')
    refused('"op": "cast", "type": "bf16"', '"op": "cast", "type": "f64"', 'value of another type')
  end)
end)
