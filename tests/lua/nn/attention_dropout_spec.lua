-- SPDX-License-Identifier: MIT
-- Dropout of attention's weights: how many it drops and that no pattern comes again, whose numbers
-- it takes, and that gradients are those of the weights which the forward pass kept; on the CPU and
-- on a simulated device.

local ridge = require 'ridge'
local nn = ridge.nn
local simulated = dofile 'tests/lua/simulated.lua'

local DEVICES = simulated.open() and { 'cpu', 'sim:0' } or { 'cpu' }
local HEADS, N = 3, 128
local EXACT = { f64 = 1e-12, f32 = 2e-6, bf16 = 0.01 }

local function stream(seed, offset)
  return ridge.generator(seed):load_state { seed = seed, offset = offset or 0 }
end

-- Weights themselves: values that are columns of the identity give row i of the weights as row i.
local function weights_of(dtype, device, opts)
  local q = ridge.zeros(HEADS, N, 16, { dtype = dtype }):to(device)
  local eye = ridge.zeros(HEADS, N, N)
  for i = 1, N do eye[{ 1, i, i }], eye[{ 2, i, i }], eye[{ 3, i, i }] = 1, 1, 1 end
  return nn.attention(q, q, eye:to(dtype):to(device), opts):to 'cpu':to 'f64'
end

local function each(f)
  for _, device in ipairs(DEVICES) do
    for _, dtype in ipairs { 'f32', 'f64', 'bf16' } do f(dtype, device, dtype .. ' ' .. device) end
  end
end

describe('dropout of attention', function()
  -- Scores of 0 have weights of 1 / N, which all types hold: what is kept is 1 / (N (1 - p)).
  it('keeps 1 - p of the weights, grown, the same in every type and on every device', function()
    for _, p in ipairs { 0.1, 0.5, 0.9 } do
      local first
      each(function(dtype, device, what)
        local w = weights_of(dtype, device, { dropout = p, generator = stream(9, 2) })
        local kept = w:ne(0):to 'f64'
        first = first or kept
        assert.is_true(kept:equal(first), what)
        assert.is_true(w:allclose(kept / (N * (1 - p)), EXACT[dtype], 0), what)
      end)
      local n = HEADS * N * N
      local most = 5 * math.sqrt(n * p * (1 - p)) -- five deviations of a binomial
      assert.near(n * (1 - p), first:sum():item(), most)
      -- and in each head and each row of a head
      local rows = first:sum(3):sub(N * (1 - p)):abs():max():item()
      assert.is_true(rows < 6 * math.sqrt(N * p * (1 - p)), rows)
    end
  end)

  it('drops others in each head, row and block of numbers', function()
    local kept = weights_of('f32', 'cpu', { dropout = 0.5, generator = stream(4) }):ne(0):to 'f64'
    local bits = (kept * 2 - 1):reshape(HEADS * N, N)
    local alike = bits:matmul(bits:t()) -- N for a row that is another's, about 0 for strangers
    for i = 1, HEADS * N do alike[{ i, i }] = 0 end
    assert.is_true(alike:abs():max():item() < 6.5 * math.sqrt(N))
    -- runs of 8192 numbers, the tiles of other random fills, and of a head's
    for _, run in ipairs { 8192, N * N } do
      local runs = (kept * 2 - 1):reshape(HEADS * N * N / run, run)
      local of = runs:matmul(runs:t())
      for i = 1, of.shape[1] do of[{ i, i }] = 0 end
      assert.is_true(of:abs():max():item() < 6 * math.sqrt(run))
    end
  end)

  it('takes the numbers that dropout of the matrix takes, from its generator alone', function()
    each(function(dtype, device, what)
      local generator, other = stream(6, 5), stream(6, 5)
      ridge.seed(3)
      local w = weights_of(dtype, device, { dropout = 0.25, generator = generator })
      local drawn = ridge.rand(2):tolist()
      local matrix = ridge.ones(HEADS, N, N):dropout(0.25, other)
      assert.is_true(w:ne(0):equal(matrix:ne(0)), what)
      assert.are.same(other:state(), generator:state())
      ridge.seed(3)
      assert.are.same(drawn, ridge.rand(2):tolist()) -- the default stream did not move
      assert.is_false(weights_of(dtype, device, { dropout = 0.25, generator = generator })
        :ne(0):equal(w:ne(0)), what)
    end)
  end)

  it('with p = 0 draws nothing, and with the largest p is finite', function()
    each(function(dtype, device, what)
      local generator = stream(6, 5)
      local plain = weights_of(dtype, device)
      assert.is_true(plain:equal(weights_of(dtype, device, { dropout = 0, generator = generator })))
      assert.are.equal(5, generator:offset())
      local w = weights_of(dtype, device, { dropout = 0.999, generator = generator })
      assert.is_true(w:isfinite():to 'f64':min():item() == 1, what)
      assert.is_true(w:max():item() > 0, what)
    end)
  end)

  -- Sizes that are no multiples of tiles, of four or of eight; a query that sees nothing.
  it('has the gradients of finite differences, by the numbers of its forward pass', function()
    for _, device in ipairs(DEVICES) do
      for _, case in ipairs { {}, { causal = true }, { block = 8, mask = true } } do
        ridge.seed(8)
        local opts = { causal = case.causal, dropout = 0.3, block = case.block }
        if case.mask then
          opts.mask = ridge.tensor({ { 1, 0 }, { 0, 0 } }):to('bool'):to(device)
        end
        local function made(n, d) return ridge.randn(2, n, d, { dtype = 'f64' }):to(device) end
        local list, weight = { made(11, 5), made(13, 5), made(13, 3) }, made(11, 3)
        local function loss()
          opts.generator = stream(7, 3)
          return (nn.attention(list[1], list[2], list[3], opts) * weight):sum()
        end
        for _, x in ipairs(list) do x:requires_grad_() end
        local y = loss()
        -- what others draw before the backward pass is none of its business
        nn.attention(list[1]:detach(), list[2]:detach(), list[3]:detach(), opts)
        ridge.rand(5)
        y:backward()
        for which, x in ipairs(list) do
          local direction, h = ridge.randn(x.shape, { dtype = 'f64' }):to(device), 1e-5
          local wanted = (x.grad * direction):sum():item()
          local found = ridge.no_grad(function()
            local here = x:clone()
            x:copy_(here + direction * h)
            local up = loss():item()
            x:copy_(here - direction * h)
            local down = loss():item()
            x:copy_(here)
            return (up - down) / (2 * h)
          end)
          assert.near(wanted, found, 1e-6 * math.max(1, math.abs(wanted)),
            ('%s, input %d'):format(device, which))
        end
      end
    end
  end)

  -- Bits of the weights: whichever tiles they are made in, forward and back agree on what is kept.
  it('gives gradients to the values of what was kept, and to no others', function()
    each(function(dtype, device, what)
      local q = ridge.zeros(HEADS, N, 16, { dtype = dtype }):to(device)
      local v = ridge.zeros(HEADS, N, 8, { dtype = dtype }):to(device):requires_grad_()
      local y = nn.attention(q, q, v, { dropout = 0.5, generator = stream(2, 1) })
      local dy = ridge.zeros(HEADS, N, 8) -- eight queries, one in each column
      for c = 1, 8 do
        for h = 1, HEADS do dy[{ h, c * 16 - h, c }] = 1 end
      end
      y:backward(dy:to(dtype):to(device))
      local wanted = ridge.ones(HEADS, N, N, { dtype = 'f64' }):dropout(0.5, stream(2, 1)) / N
      local found = v.grad:to 'cpu':to 'f64'
      for c = 1, 8 do
        for h = 1, HEADS do
          assert.is_true(found:select(1, h):select(2, c)
            :allclose(wanted:select(1, h):select(1, c * 16 - h), EXACT[dtype], 0), what)
        end
      end
    end)
  end)

  it('in a layer is for training alone', function()
    for _, device in ipairs(DEVICES) do
      local layer = nn.MultiHeadAttention(16, { heads = 2, dropout = 0.5, seed = 1 }):to(device)
      local plain = nn.MultiHeadAttention(16, { heads = 2, seed = 1 }):to(device):eval()
      local x = ridge.randn(2, 9, 16):to(device)
      layer:eval()
      ridge.seed(5)
      assert.is_true(layer(x):equal(plain(x)))
      local drawn = ridge.rand(1):item()
      ridge.seed(5)
      assert.are.equal(drawn, ridge.rand(1):item())
      layer:train()
      assert.is_false(layer(x):allclose(plain(x), 1e-3, 1e-3))
    end
  end)

  it('computed again drops the same weights', function()
    for _, device in ipairs(DEVICES) do
      local layer = nn.MultiHeadAttention(16, { heads = 2, dropout = 0.5, seed = 1 }):train()
      layer:to(device)
      local x = ridge.randn(2, 9, 16):to(device)
      local function gradient(f)
        local a = x:clone():requires_grad_()
        ridge.seed(5)
        local y = f(a)
        ridge.rand(3)
        y:square():sum():backward()
        return a.grad
      end
      local plain = gradient(layer)
      local again = gradient(function(a) return ridge.recompute(layer, a) end)
      assert.is_true(again:equal(plain), device)
    end
  end)

  it('draws anew in each replay of a step with its gradients', function()
    for _, device in ipairs(DEVICES) do
      local layer = nn.MultiHeadAttention(16, { heads = 2, dropout = 0.5, seed = 1 }):train()
      layer:to(device)
      local x = ridge.randn(2, 9, 16):to(device)
      local function step()
        local a = x:clone():requires_grad_()
        layer(a):square():sum():backward()
        return a.grad
      end
      step()
      local plan = ridge.capture(step)
      ridge.seed(3)
      local replayed = {}
      for i = 1, 2 do
        plan:run()
        replayed[i] = plan.results[1]:clone()
      end
      ridge.seed(3)
      for i = 1, 2 do assert.is_true(replayed[i]:allclose(step(), 1e-6, 1e-6), device .. i) end
      assert.is_false(replayed[1]:allclose(replayed[2], 1e-3, 1e-3))
    end
  end)
end)
