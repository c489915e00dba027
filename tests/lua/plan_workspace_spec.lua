-- SPDX-License-Identifier: MIT
-- Memory that a step of a plan only works in is given back at its end: the steps behind it use it
-- again, and all of it goes with the plan.
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local ref = require 'ridge.ffi.ref'
local nn = ridge.nn

local function live()
  ref.collect()
  return ridge.memory.stats().live
end

-- Functions from a tensor of a size to another of that size, by the type they are tried in.
local function functions(dtype)
  local function layer(l) return l:eval():to(dtype) end
  local w = ridge.randn(96, 96):to(dtype)
  local many = ridge.randn(64, 96, 96):to(dtype)
  local sketch = { num_terms = 2, low_rank = 8, seed = 1, warn = false }
  local function sketched(form)
    sketch.form = form
    return layer(nn.SKLinear(96, 96, sketch))
  end
  return {
    { 'matmul', { 96, 96 }, function(x) return x:matmul(w) end },
    { 'matmul, transposed', { 96, 96 }, function(x) return x:t():matmul(w) end },
    { 'matmul of a batch', { 64, 96, 96 }, function(x) return x:matmul(many) end },
    { 'linear', { 96, 96 }, layer(nn.Linear(96, 96, { seed = 1 })) },
    { 'low rank', { 96, 96 }, layer(nn.LowRankLinear(96, 96, { rank = 8, seed = 1 })) },
    { 'sketched, stored', { 96, 96 }, sketched 'stored' },
    { 'sketched, bits', { 96, 96 }, sketched 'bits' },
    { 'sketched, seed', { 96, 96 }, sketched 'seed' },
    { 'convolution', { 2, 8, 12, 12 }, layer(nn.Conv2d(8, 8, 3, { padding = 1, seed = 1 })) },
  }
end

describe('the workspace of a plan', function()
  for _, dtype in ipairs { 'f32', 'bf16', 'f64' } do
    for _, case in ipairs(functions(dtype)) do
      it(('does not grow with its steps: %s, %s'):format(case[1], dtype), function()
        local _, shape, f = unpack(case)
        local x = ridge.randn(unpack(shape)):to(dtype)
        local function bytes(n)
          local before = live()
          local plan = ridge.capture(function()
            local y = x
            for _ = 1, n do
              local z = f(y)
              if y ~= x then y:release() end -- collected at some time, else
              y = z
            end
            return y
          end)
          local took = live() - before
          plan:release()
          return took, live() - before
        end
        ridge.no_grad(function()
          bytes(1) -- what is kept with the weights is there now
          local few, left = bytes(3)
          assert.equal(0, left)
          assert.equal(few, (bytes(9)))
        end)
      end)

      -- a plan that was emitted prepares its steps when they first run
      it(('is a graph\'s plan\'s own after its first run: %s, %s'):format(case[1], dtype),
        function()
          local _, shape, f = unpack(case)
          local x = ridge.randn(unpack(shape)):to(dtype)
          local plan = ridge.graph(ridge.inference, f, x):plan()
          local first = plan():clone()
          local others = {}
          for size = 6, 20 do -- of every class that a block can have
            for _ = 1, 8 do others[#others + 1] = ridge.full(7, 2 ^ size) end
          end
          assert.is_true(plan():equal(first))
          for _, other in ipairs(others) do
            assert.is_true(other:equal(ridge.full(7, other.count)), other.count)
          end
        end)

      it(('is made again where its first run had no memory: %s, %s'):format(case[1], dtype),
        function()
          local _, shape, f = unpack(case)
          local x = ridge.randn(unpack(shape)):to(dtype)
          local graph = ridge.graph(ridge.inference, f, x)
          local wanted = graph:plan()():clone()
          local n, ok = 0
          repeat
            n = n + 1
            local plan = graph:plan()
            C.rg_alloc_fail_at(n)
            ok = pcall(plan.run, plan)
            C.rg_alloc_fail_at(0)
            assert.is_true(plan():equal(wanted), n)
            plan:release()
          until ok
          assert.is_true(n > 1)
        end)
    end
  end
end)
